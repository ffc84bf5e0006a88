"""How fast strangers are read: a loop and a socket of the test's own, and no time that passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from nearcast.runtime.port_reader import LEAST_STRANGERS_PER_S, STRANGERS_PER_S, PortReader


class ManualLoop:
    """Runs the reader as long as something waits; timers when the test moves the clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.readers: dict[int, Callable[[], None]] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.readers[descriptor] = callback

    def remove_reader(self, descriptor: int) -> None:
        self.readers.pop(descriptor, None)

    def call_at(self, at_s: float, callback: Callable[[], None]) -> ManualLoop:
        self.timers.append((at_s, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def move_to(self, now_s: float) -> None:
        self.now_s = now_s
        due = [one for one in self.timers if one[0] <= now_s]
        self.timers = [one for one in self.timers if one[0] > now_s]
        for _, callback in due:
            callback()


class Queue:
    """A socket with so many datagrams waiting."""

    def __init__(self) -> None:
        self.waiting, self.waited_s = 0, 0.0
        self.dropped: list[frozenset[int]] = []
        self.can_drop = True
        self.gathered_s: list[float] = []

    def fileno(self) -> int:
        return id(self)

    def drain(self, limit: int) -> tuple[list[tuple[bytes, Any]], float]:
        return self.take(limit), self.waited_s

    def gather(self, seconds: float) -> None:
        self.gathered_s.append(seconds)

    def drop(self, indices: frozenset[int]) -> None:
        self.dropped.append(indices)
        if not self.can_drop:
            raise OSError("not here")

    def take(self, limit: int) -> list[tuple[bytes, Any]]:
        taken = min(limit, self.waiting)
        self.waiting -= taken
        return [(b"x", ("10.0.0.1", 1))] * taken


class Trial:
    """A port of which strangers' datagrams are read."""

    def __init__(self) -> None:
        self.loop, self.queue, self.batches = ManualLoop(), Queue(), list[int]()
        self.sessions, self.is_flooded, self.unconfirmed = Queue(), False, 0
        self.strangers: Queue | None = self.queue
        self.urgent, self.patient = Queue(), Queue()
        self.passes, self.has_publications = list[int](), False
        self.reader = PortReader(
            cast("Any", self.loop),
            cast("Any", self),
            self.take_sessions,
            self.take,
            lambda: self.unconfirmed,
        )
        self.reader.start()

    def take_sessions(self, batch: list[tuple[bytes, Any]], _waited_s: float | None) -> bool:
        self.passes.append(len(batch))
        return self.has_publications

    def read_sessions(self, waiting: int) -> None:
        self.sessions.waiting = waiting
        self.loop.readers[self.sessions.fileno()]()

    def take(self, batch: list[tuple[bytes, Any]], is_flooded: bool) -> None:
        self.batches.append(len(batch))
        self.is_flooded = is_flooded

    def read(self) -> None:
        while self.queue.waiting and self.queue.fileno() in self.loop.readers:
            self.loop.readers[self.queue.fileno()]()


def test_a_flood_is_read_in_small_batches_and_no_faster_than_allowed() -> None:
    trial = Trial()
    for step in range(1_000):  # one second of 1,000,000 datagrams
        trial.queue.waiting = 1_000
        trial.loop.move_to(step / 1e3)
        trial.read()
    assert max(trial.batches) <= 16
    assert sum(trial.batches) == pytest.approx(STRANGERS_PER_S, rel=0.02)


def test_while_sessions_wait_strangers_are_read_more_slowly() -> None:
    trial = Trial()
    for waited_s, rate_per_s in ((0.02, LEAST_STRANGERS_PER_S), (0.001, STRANGERS_PER_S)):
        for _ in range(2):  # the first second is for the rate to settle
            trial.batches.clear()
            for _ in range(1_000):
                trial.queue.waiting, trial.sessions.waiting = 1_000, 1
                trial.sessions.waited_s = waited_s
                trial.loop.readers[trial.sessions.fileno()]()
                trial.loop.move_to(trial.loop.now_s + 1e-3)
                trial.read()
        assert sum(trial.batches) == pytest.approx(rate_per_s, rel=0.1)


def test_newcomers_are_read_at_once_also_after_a_flood() -> None:
    trial = Trial()
    trial.queue.waiting = 100_000
    trial.read()
    assert trial.queue.waiting > 0
    assert trial.is_flooded
    trial.queue.waiting = 5  # the kernel dropped the rest
    trial.loop.move_to(0.1)
    trial.read()
    assert trial.queue.waiting == 0
    for step in range(1, 100):
        trial.loop.move_to(0.1 + step / 10)
        trial.queue.waiting = 100
        trial.read()
        assert trial.queue.waiting == 0
    assert not trial.is_flooded


def test_a_reader_that_is_stopped_in_a_pause_stays_so() -> None:
    trial = Trial()
    trial.queue.waiting = 100_000
    trial.read()
    trial.reader.stop()
    trial.loop.move_to(10.0)
    assert not trial.loop.readers


@pytest.mark.parametrize("can_drop", [True, False])
def test_the_kernel_is_told_of_muted_sessions_when_they_change(can_drop: bool) -> None:
    trial = Trial()
    trial.sessions.can_drop = can_drop
    for muted in (frozenset[int](), frozenset([3]), frozenset([3]), frozenset[int]()):
        trial.reader.mute(muted)
    assert trial.sessions.dropped == [{3}, frozenset()]


def test_urgent_datagrams_are_read_first_and_passes_are_short_while_they_come() -> None:
    trial = Trial()
    trial.read_sessions(100)
    assert trial.passes == [64]
    trial.urgent.waiting = 3
    trial.loop.readers[trial.urgent.fileno()]()
    trial.urgent.waiting = 2
    trial.read_sessions(100)
    assert trial.passes == [64, 3, 2, 8]
    trial.loop.move_to(trial.loop.time() + 2.0)
    trial.read_sessions(100)
    trial.read_sessions(100)
    assert trial.passes[4:] == [64, 64]


def test_datagrams_gather_after_publications_unless_others_wait() -> None:
    trial = Trial()
    trial.reader.note_load(0.9)
    trial.read_sessions(2)
    assert trial.sessions.gathered_s == []
    trial.has_publications = True
    trial.read_sessions(3)
    assert len(trial.sessions.gathered_s) == 1
    trial.read_sessions(1_000)
    trial.read_sessions(0)
    assert len(trial.sessions.gathered_s) == 1
    assert trial.passes == [2, 3, 64]


def test_nothing_waits_to_be_gathered_while_the_loop_has_time_left() -> None:
    trial = Trial()
    trial.has_publications = True
    gathered = []
    for share in (0.0, 0.8, 0.9, 0.6, 0.8, 0.4, 0.8):  # gathering itself makes the share smaller
        trial.reader.note_load(share)
        trial.sessions.gathered_s.clear()
        trial.read_sessions(3)
        gathered.append(len(trial.sessions.gathered_s))
    assert gathered == [0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(("unconfirmed", "wait_s"), [(10, 0.1), (1_000, 0.01)])
def test_patient_datagrams_wait_for_a_pass_that_there_is_anyway(
    unconfirmed: int, wait_s: float
) -> None:
    trial = Trial()
    trial.unconfirmed = unconfirmed
    trial.patient.waiting = 3
    trial.loop.readers[trial.patient.fileno()]()  # the first ones: nothing was read before
    assert trial.passes == [3]
    assert trial.patient.fileno() not in trial.loop.readers
    trial.patient.waiting = 2
    assert len(trial.reader.take_patient()) == 2  # along with a pass
    trial.loop.move_to(0.9 * wait_s)
    trial.reader.take_patient()
    trial.loop.move_to(1.2 * wait_s)  # read a moment ago: no pass of their own yet
    assert trial.patient.fileno() not in trial.loop.readers
    trial.loop.move_to(2.0 * wait_s)
    assert trial.patient.fileno() in trial.loop.readers


def test_passes_in_a_steady_row_cause_few_timers() -> None:
    trial = Trial()
    trial.patient.waiting = 1
    trial.loop.readers[trial.patient.fileno()]()
    woken = 0
    for step in range(1, 101):  # one second with a hundred passes
        before = list(trial.loop.timers)
        trial.loop.move_to(step / 100)
        woken += trial.loop.timers != before
        trial.reader.take_patient()
    assert woken <= 12
    assert trial.patient.fileno() not in trial.loop.readers


def test_many_patient_datagrams_are_read_in_turns_with_others() -> None:
    trial = Trial()
    trial.patient.waiting = 200
    read = trial.loop.readers[trial.patient.fileno()]
    for left in (136, 72, 8):
        read()
        assert trial.patient.waiting == left
        assert trial.patient.fileno() in trial.loop.readers  # others have their turn between
    read()
    assert trial.passes == [64, 64, 64, 8]
    assert trial.patient.fileno() not in trial.loop.readers

"""How fast strangers are read: a loop and a socket of the test's own, and no time that passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from nearcast.runtime.port_reader import STRANGERS_PER_S, PortReader


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
        self.waiting = 0

    def fileno(self) -> int:
        return id(self)

    def take(self, limit: int) -> list[tuple[bytes, Any]]:
        taken = min(limit, self.waiting)
        self.waiting -= taken
        return [(b"x", ("10.0.0.1", 1))] * taken


class Trial:
    """A port of which strangers' datagrams are read."""

    def __init__(self) -> None:
        self.loop, self.queue, self.batches = ManualLoop(), Queue(), list[int]()
        self.sessions = Queue()
        self.strangers: Queue | None = self.queue
        self.reader = PortReader(
            cast("Any", self.loop),
            cast("Any", self),
            lambda: None,
            lambda batch: self.batches.append(len(batch)),
        )
        self.reader.start()

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


def test_newcomers_are_read_at_once_also_after_a_flood() -> None:
    trial = Trial()
    trial.queue.waiting = 100_000
    trial.read()
    assert trial.queue.waiting > 0
    trial.queue.waiting = 5  # the kernel dropped the rest
    trial.loop.move_to(0.1)
    trial.read()
    assert trial.queue.waiting == 0
    for step in range(1, 100):
        trial.loop.move_to(0.1 + step / 10)
        trial.queue.waiting = 100
        trial.read()
        assert trial.queue.waiting == 0


def test_a_reader_that_is_stopped_in_a_pause_stays_so() -> None:
    trial = Trial()
    trial.queue.waiting = 100_000
    trial.read()
    trial.reader.stop()
    trial.loop.move_to(10.0)
    assert not trial.loop.readers

"""Gate and spool together against a plain reference, by random steps; and case by case."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.making import message
from nearcast.broker.sequence_gate import SequenceGate, Verdict
from nearcast.broker.topic_spool import TopicSpool
from nearcast.errors import ConfigError
from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication

WINDOW = 5
HELD_LIMIT = 7
PUBLISHERS = st.sampled_from(["a", "b", "c"])
Id = tuple[str, int, int]


class GateAndSpool(RuleBasedStateMachine):
    """The reference keeps every message ever taken in one list, and sets of waiting ids."""

    @initialize(capacity=st.integers(1, 8), capacity_bytes=st.none() | st.integers(1, 200))
    def begin(self, capacity: int, capacity_bytes: int | None) -> None:
        self.capacity, self.capacity_bytes = capacity, capacity_bytes
        self.gate = SequenceGate(WINDOW, HELD_LIMIT)
        self.spool = TopicSpool(capacity, capacity_bytes)
        self.taken: list[Publication] = []
        self.sent: list[Publication] = []  # kept, so that no id is used twice
        self.reached: dict[str, tuple[int, int]] = {}
        self.waiting: dict[Id, Publication] = {}

    def _release(self, publisher: str) -> None:
        epoch, sequence = self.reached[publisher]
        while (key := (publisher, epoch, sequence + 1)) in self.waiting:
            self.taken.append(self.waiting.pop(key))
            sequence += 1
        self.reached[publisher] = (epoch, sequence)

    def _begin_epoch(self, publisher: str, epoch: int) -> None:
        if epoch > self.reached.get(publisher, (-1, 0))[0]:
            self.reached[publisher] = (epoch, 0)
            self.waiting = {key: one for key, one in self.waiting.items() if key[0] != publisher}

    @rule(publisher=PUBLISHERS, epoch=st.integers(1, 3), sequence=st.integers(-1, 14))
    def send_any(self, publisher: str, epoch: int, sequence: int) -> None:
        self._send(message(publisher, sequence, epoch=epoch, filler="x" * (sequence % 5)))

    @rule(publisher=PUBLISHERS, ahead=st.integers(0, 4))
    def send_near(self, publisher: str, ahead: int) -> None:
        epoch, sequence = self.reached.get(publisher, (1, 0))
        self._send(message(publisher, sequence + ahead, epoch=epoch))

    def _send(self, one: Publication) -> None:
        verdict, released = self.gate.admit(one)
        self.sent.append(one)
        before = len(self.taken)
        key = (one.publisher, one.epoch, one.sequence)
        known_epoch = self.reached.get(one.publisher, (-1, 0))[0]
        if one.epoch < known_epoch:
            expected = Verdict.STALE_EPOCH
        elif one.sequence < 1:
            expected = Verdict.MALFORMED
        else:
            self._begin_epoch(one.publisher, one.epoch)
            reached = self.reached[one.publisher][1]
            if one.sequence <= reached or key in self.waiting:
                expected = Verdict.DUPLICATE
            elif one.sequence == reached + 1:
                expected = Verdict.TAKEN
                self.taken.append(one)
                self.reached[one.publisher] = (one.epoch, one.sequence)
                self._release(one.publisher)
            elif one.sequence > reached + WINDOW or len(self.waiting) >= HELD_LIMIT:
                expected = Verdict.TOO_EARLY
            else:
                expected = Verdict.HELD
                self.waiting[key] = one
        assert verdict is expected
        self._check_released(released, before)

    @rule(publisher=PUBLISHERS, epoch=st.integers(1, 3), through=st.integers(0, 14))
    def settle(self, publisher: str, epoch: int, through: int) -> None:
        released = self.gate.advance(publisher, epoch, through)
        before = len(self.taken)
        self._begin_epoch(publisher, epoch)
        known, reached = self.reached[publisher]
        if epoch == known and through > reached:
            for sequence in range(reached + 1, through + 1):
                early = self.waiting.pop((publisher, epoch, sequence), None)
                if early is not None:
                    self.taken.append(early)
            self.reached[publisher] = (epoch, through)
            self._release(publisher)
        self._check_released(released, before)

    @rule()
    def restart(self) -> None:
        """Only what is durable is left: waiting messages are gone."""
        positions = self.gate.positions()
        self.gate = SequenceGate(WINDOW, HELD_LIMIT)
        self.gate.restore(positions, self.spool.view())
        self.waiting.clear()

    def _check_released(self, released: list[Publication], before: int) -> None:
        assert list(map(id, released)) == list(map(id, self.taken[before:]))
        for one in released:
            self.spool.append(one)

    @invariant()
    def agrees_with_the_reference(self) -> None:
        if not hasattr(self, "gate"):
            return
        assert self.gate.held == len(self.waiting)
        assert {one.publisher: (one.epoch, one.sequence) for one in self.gate.positions()} == (
            self.reached
        )
        for publisher, (epoch, reached) in self.reached.items():
            held = {key[2] for key in self.waiting if key[:2] == (publisher, epoch)}
            missing = {
                one
                for first, last in self.gate.missing(publisher)
                for one in range(first, last + 1)
            }
            assert missing == set(range(reached + 1, max(held, default=0))) - held
        kept = self.taken[-self.capacity :]
        while (
            self.capacity_bytes is not None
            and len(kept) > 1
            and sum(len(one.payload) for one in kept) > self.capacity_bytes
        ):
            kept = kept[1:]
        view = self.spool.view()
        assert list(view) == kept
        assert len(view) == len(self.spool) == len(kept)
        assert self.spool.size_bytes == sum(len(one.payload) for one in kept)
        assert view.end == len(self.taken)
        assert len({(one.publisher, one.epoch, one.sequence) for one in self.taken}) == len(
            self.taken
        )


GateAndSpool.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, derandomize=True
)
TestGateAndSpool = GateAndSpool.TestCase


@pytest.mark.parametrize("behind", range(4))
@pytest.mark.parametrize("count", range(12))
def test_a_view_gives_any_part_of_the_spool(behind: int, count: int) -> None:
    spool = TopicSpool(8)
    everything = [message("a", sequence) for sequence in range(1, 21)]
    for one in everything:
        spool.append(one)
    view = spool.view().until(20 - behind)
    kept = everything[12 : 20 - behind]
    assert list(view) == kept
    assert view.recent(count) == (kept[-count:] if count else [])
    assert view.since(20 - count) == [one for one in kept if one.sequence > 20 - count]
    assert [view[index] for index in range(-len(kept), len(kept))] == kept + kept
    assert view[1:3] == kept[1:3]
    assert list(reversed(view)) == kept[::-1]
    with pytest.raises(IndexError):
        view[len(kept)]
    assert len(view.until(3)) == 0
    assert view.until(3).since(0) == []


def test_a_damaged_position_is_made_good_by_the_spool() -> None:
    gate = SequenceGate()
    gate.restore([Position("a", 1, 4)], [message("a", 5), message("a", 6), message("b", 9)])
    assert gate.streams["a"].sequence == 6
    assert gate.admit(message("b", 9))[0] is Verdict.DUPLICATE


def test_numbers_out_of_range_and_ids_that_are_none_are_malformed() -> None:
    gate = SequenceGate()
    numbers = message(sequence=0), message(sequence=2**63), message(epoch=-1)
    for one in (*numbers, message("x" * 1025), message("\ud800")):
        assert gate.admit(one) == (Verdict.MALFORMED, [])
    assert gate.positions() == ()


@pytest.mark.parametrize("sizes", [(0, None), (1, 0)])
def test_a_spool_without_room_is_refused(sizes: tuple[int, int | None]) -> None:
    with pytest.raises(ConfigError):
        TopicSpool(*sizes)

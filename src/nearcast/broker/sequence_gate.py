"""Every message once and in order: the gate before a topic's spool.

Per publisher it keeps the epoch, the last sequence number up to which nothing is missing, and the
few messages that came too early. Those wait for the missing ones, which are asked for, never
skipped: the order in the spool is the order of publication.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from nearcast.broker.messages import Message
from nearcast.spool.changes import Position

__all__ = ["Arrival", "Ranges", "SequenceGate", "Verdict", "is_well_formed"]

Ranges = tuple[tuple[int, int], ...]
"""Sequence numbers as (first, last) pairs."""

_LARGEST = (1 << 63) - 1
_LONGEST_ID_BYTES = 1024


class Verdict(Enum):
    """What became of a message at the gate."""

    TAKEN = auto()
    """Next in order: to be spooled, with those that had waited for it."""
    DUPLICATE = auto()
    """Was taken before, or waits already."""
    HELD = auto()
    """Came before others that are missing; waits for them."""
    STALE_EPOCH = auto()
    """Its publisher has begun a newer epoch."""
    TOO_EARLY = auto()
    """Too far ahead to wait, or too many wait already: the publisher must send it again."""
    MALFORMED = auto()
    """Epoch or sequence number out of range, or an id that is too long or no text."""


class Arrival(NamedTuple):
    """A message and when it came."""

    message: Message
    arrived_at_s: float


@dataclass(slots=True)
class _Publisher:
    epoch: int
    sequence: int
    held: dict[int, Arrival] = field(default_factory=dict)


class SequenceGate:
    """Takes each message of a topic once, in the order of its publisher.

    Parameters
    ----------
    window
        How far ahead of a missing message another may be to wait for it.
    held_limit
        How many messages may wait in all.
    """

    def __init__(self, window: int = 64, held_limit: int = 4096) -> None:
        self._window, self._held_limit = window, held_limit
        self._publishers: dict[str, _Publisher] = {}
        self.held = 0
        """Messages that wait."""

    def admit(self, message: Message, now_s: float) -> tuple[Verdict, list[Arrival]]:
        """Return the verdict and the messages to be spooled now, in order."""
        publisher = self._publishers.get(message.publisher)
        if publisher is None or message.epoch > publisher.epoch:
            if not is_well_formed(message):
                return Verdict.MALFORMED, []
            publisher = self._begin(message.publisher, message.epoch, 0)
        sequence = message.sequence
        if message.epoch < publisher.epoch:
            return Verdict.STALE_EPOCH, []
        if sequence == publisher.sequence + 1:
            publisher.sequence = sequence
            return Verdict.TAKEN, [Arrival(message, now_s), *self._released(publisher)]
        if sequence <= publisher.sequence or sequence in publisher.held:
            return (Verdict.DUPLICATE if sequence >= 1 else Verdict.MALFORMED), []
        if sequence > publisher.sequence + self._window or self.held >= self._held_limit:
            return Verdict.TOO_EARLY, []
        publisher.held[sequence] = Arrival(message, now_s)
        self.held += 1
        return Verdict.HELD, []

    def advance(self, publisher_id: str, epoch: int, through: int) -> list[Arrival]:
        """Stop waiting for messages up to `through`, which their sender says is settled.

        Returns the waiting messages that are next in order then.
        """
        publisher = self._publishers.get(publisher_id)
        if publisher is None or epoch > publisher.epoch:
            publisher = self._begin(publisher_id, epoch, 0)
        if epoch < publisher.epoch or through <= publisher.sequence:
            return []
        early = sorted(one for one in publisher.held if one <= through)
        settled = [publisher.held.pop(one) for one in early]
        self.held -= len(settled)
        publisher.sequence = through
        return settled + self._released(publisher)

    def missing(self, publisher_id: str, through: int = 0) -> Ranges:
        """Return what is missing before the newest waiting message, or up to `through`."""
        publisher = self._publishers[publisher_id]
        ranges, expected = [], publisher.sequence + 1
        for sequence in sorted(publisher.held):
            if sequence > expected:
                ranges.append((expected, sequence - 1))
            expected = sequence + 1
        if through >= expected:
            ranges.append((expected, through))
        return tuple(ranges)

    def took(self, message: Message) -> bool:
        """Return whether a message went through before."""
        publisher = self._publishers.get(message.publisher)
        return (
            publisher is not None
            and message.epoch == publisher.epoch
            and message.sequence <= publisher.sequence
        )

    def knows(self, publisher_id: str) -> bool:
        """Return whether the publisher has ever been heard of."""
        return publisher_id in self._publishers

    def position(self, publisher_id: str) -> Position:
        """Return how far a publisher has come."""
        publisher = self._publishers[publisher_id]
        return Position(publisher_id, publisher.epoch, publisher.sequence)

    def positions(self) -> tuple[Position, ...]:
        """Return how far all publishers have come."""
        return tuple(self.position(publisher_id) for publisher_id in self._publishers)

    def restore(self, positions: Iterable[Position], spooled: Iterable[Message]) -> None:
        """Begin where a log ends; the spooled messages stand in where a position was damaged."""
        for one in positions:
            self._begin(one.publisher, one.epoch, one.sequence)
        for message in spooled:
            self.advance(message.publisher, message.epoch, message.sequence)

    def _begin(self, publisher_id: str, epoch: int, sequence: int) -> _Publisher:
        old = self._publishers.get(publisher_id)
        if old is not None:
            self.held -= len(old.held)  # never acknowledged: lost with the epoch
        publisher = self._publishers[publisher_id] = _Publisher(epoch, sequence)
        return publisher

    def _released(self, publisher: _Publisher) -> list[Arrival]:
        released = []
        while publisher.held and publisher.sequence + 1 in publisher.held:
            publisher.sequence += 1
            released.append(publisher.held.pop(publisher.sequence))
        self.held -= len(released)
        return released


def is_well_formed(message: Message) -> bool:
    """Return whether the gate can take a message at all."""
    try:
        id_bytes = len(message.publisher.encode())
    except UnicodeEncodeError:
        return False
    return (
        id_bytes <= _LONGEST_ID_BYTES
        and 1 <= message.sequence <= _LARGEST
        and 0 <= message.epoch <= _LARGEST
    )

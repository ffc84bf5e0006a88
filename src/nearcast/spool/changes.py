"""What the store is told (groups of changes per topic) and what it keeps alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

__all__ = [
    "AFTER_DAMAGE",
    "GENERATION",
    "Group",
    "LiveState",
    "LiveTopic",
    "Position",
    "TopicChange",
]

GENERATION = 1 << 40
"""Offsets count the records of a topic that caused notifications. From this bit on they count the
starts of the log: an offset that was told before a crash and never became durable is not given to
another record."""
AFTER_DAMAGE = 1 << 10
"""Generations that a log skips which has lost something: more than had begun in what is gone. With
so many, offsets stay below 2^62 for thousands of damages."""


class Position(NamedTuple):
    """How far a publisher's messages have come in a topic.

    With epoch and sequence 0 it says that nothing is known: the publisher is forgotten.
    """

    publisher: str
    epoch: int
    sequence: int
    """All messages of the epoch up to and with this one were taken."""


class TopicChange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one batch changed in a topic: its output and its input positions together."""

    topic: str
    records: tuple[bytes, ...] = ()
    """New records, oldest first."""
    live: int = 0
    """Records of the topic that are alive afterwards; older ones are discarded."""
    positions: tuple[Position, ...] = ()
    """Where the publishers of this batch are afterwards."""
    state: bytes | None = None
    """State of the topic's processor afterwards; None leaves it as it was."""
    ended: bool = False
    """The topic is no longer kept here; everything of it is dropped."""
    end: int = 0
    """The highest offset that was given to a record of the topic."""
    aside: bytes | None = None
    """State that is set aside afterwards, empty for none; None leaves it as it was."""


class Group(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Changes that become durable together or not at all."""

    ticket: int
    """The caller's name for the group, given back when it is durable."""
    changes: tuple[TopicChange, ...]


@dataclass(slots=True)
class LiveTopic:
    """What is alive of a topic."""

    records: deque[bytes] = field(default_factory=deque)
    positions: dict[str, Position] = field(default_factory=dict)
    state: bytes | None = None
    end: int = 0
    """The highest offset that was given to a record, alive or not."""
    aside: bytes = b""
    """A state of the processor that another server may have instead; empty: none."""


@dataclass(slots=True)
class LiveState:
    """What is alive of all topics: the content of a snapshot."""

    topics: dict[str, LiveTopic] = field(default_factory=dict)

    def apply(self, change: TopicChange) -> None:
        """Take over a change that has become durable."""
        if change.ended:
            self.topics.pop(change.topic, None)
            return
        topic = self.topic(change.topic)
        records, live = topic.records, change.live
        records.extend(change.records)
        while len(records) > live:
            records.popleft()
        positions = topic.positions
        for position in change.positions:
            publisher, epoch, sequence = position
            if sequence or epoch:
                positions[publisher] = position
            else:
                positions.pop(publisher, None)
        if change.state is not None:
            topic.state = change.state
        if change.aside is not None:
            topic.aside = change.aside
        topic.end = max(topic.end, change.end)

    def begin_generation(self, generations: int = 1) -> None:
        """Note that the log starts: offsets from here on differ from all that were told before."""
        for topic in self.topics.values():
            topic.end += generations * GENERATION

    def topic(self, name: str) -> LiveTopic:
        """Return a topic, a new one if it was not alive."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = LiveTopic()
        return topic

    def trim(self, name: str, live: int) -> None:
        """Discard the oldest records of a topic until `live` are left."""
        records = self.topic(name).records
        while len(records) > live:
            records.popleft()

    def changes(self) -> Iterator[TopicChange]:
        """Return the changes that make this state from nothing."""
        for name, topic in self.topics.items():
            yield TopicChange(
                name,
                tuple(topic.records),
                len(topic.records),
                tuple(topic.positions.values()),
                topic.state,
                end=topic.end,
                aside=topic.aside or None,
            )

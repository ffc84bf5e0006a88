"""What a broker holds and how its processors do, for status pages and metrics."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.broker.topic_broker import TopicBroker

__all__ = ["BrokerUsage", "TopicUsage", "usage_of"]


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """What a topic holds, and how its processor does."""

    capacity: int
    """Messages that its spool may keep."""
    messages: int
    """Messages in its spool."""
    size_bytes: int
    """Bytes of payload in its spool."""
    pending: int
    """Messages that wait for the processor or are with it."""
    failures: int
    """Messages that the processor failed at, ever."""
    overruns: int
    kills: int
    quarantines: int
    unprocessed: int
    """Messages that were spooled only, because the processor rested."""
    is_resting: bool


@dataclass(frozen=True, slots=True)
class BrokerUsage:
    """What a broker holds."""

    storage: int
    """Messages that the spools of all topics may keep."""
    topics: dict[str, TopicUsage]


def usage_of(topics: dict[str, TopicBroker]) -> BrokerUsage:
    """Return what topics hold now."""
    found = {}
    for name, topic in topics.items():
        guard = topic.processing.guard
        found[name] = TopicUsage(
            topic.settings.spool,
            len(topic.spool),
            topic.spool.size_bytes,
            topic.pending,
            guard.failures,
            guard.overruns,
            guard.kills,
            guard.quarantines,
            guard.unprocessed,
            guard.rests_until_s is not None,
        )
    return BrokerUsage(sum(one.capacity for one in found.values()), found)

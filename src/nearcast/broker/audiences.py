"""From audiences to client ids: the seam to whatever knows subscribers and their positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import nsmallest
from math import hypot
from typing import NamedTuple, Protocol

import msgspec

from nearcast.broker.notifications import (
    AllSubscribers,
    Audience,
    InCircle,
    NamedClients,
    NearestClients,
)
from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire.messages import Notify

__all__ = ["OutgoingNotification", "Recipients", "SubscriberLookup", "SubscriberTable", "resolve"]


class Recipients(msgspec.Struct):
    """The clients of an audience; all subscribers of a topic are kept until another subscribes."""

    clients: tuple[str, ...]
    by_home: dict[str, tuple[str, ...]] | None = None
    """The same by the servers that deliver to them, once somebody has found that out."""


class OutgoingNotification(NamedTuple):
    """A notification for the homes of its recipients."""

    notify: Notify
    """As clients get it; (publisher, topic, epoch, durable, sequence, part) is its identity:
    after a crash the same one may be sent again, and receivers drop what they have seen."""
    recipients: Recipients
    left_out: str
    """The one of them that is not told; empty when all are."""
    after_sync: bool
    """Whether the message that caused it is synced before anybody is told."""


class SubscriberLookup(Protocol):
    """Who subscribes to a topic, and where they are; asked for each notification."""

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers; membership tests must be quick."""
        ...

    def everyone(self, topic: str) -> Recipients:
        """Return all subscribers; the same object again while nothing changes."""
        ...

    def nearest(self, topic: str, x_km: float, y_km: float, count: int) -> Iterable[str]:
        """Return the nearest subscribers, the nearest first, equally near ones by id."""
        ...

    def within(self, topic: str, x_km: float, y_km: float, radius_km: float) -> Iterable[str]:
        """Return the subscribers in a circle, its edge included."""
        ...


def resolve(
    lookup: SubscriberLookup, topic: str, audience: Audience, cause: str
) -> tuple[Recipients, str]:
    """Return the clients of an audience, and the one of them that is not told, or "".

    Parameters
    ----------
    cause
        The publisher whose message caused it, who need not be told.
    """
    match audience:
        case AllSubscribers():
            everyone = lookup.everyone(topic)
            return everyone, cause if cause in lookup.subscribers(topic) else ""
        case NamedClients(clients):
            subscribers = lookup.subscribers(topic)
            return Recipients(
                tuple(one for one in dict.fromkeys(clients) if one in subscribers)
            ), ""
        case NearestClients(x_km, y_km, count):
            # one more, because the publisher itself is often the nearest
            found = lookup.nearest(topic, x_km, y_km, count + 1)
            return Recipients(tuple(client for client in found if client != cause)[:count]), ""
        case InCircle(x_km, y_km, radius_km):
            found = lookup.within(topic, x_km, y_km, radius_km)
            return Recipients(tuple(client for client in found if client != cause)), ""
        case _:
            raise TypeError(f"{audience!r} is not an audience")


class SubscriberTable:
    """Subscribers of topics and of patterns; who subscribes to both is told once."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None]] = {}
        """By topic or pattern."""
        self._patterns: dict[str, None] = {}
        self._merged: dict[str, dict[str, None]] = {}
        """By topic: its subscribers and those of patterns that match, since the last change."""
        self._places: dict[str, tuple[float, float]] = {}
        self._counts: dict[str, int] = {}
        """Topics of each subscriber; its place is forgotten with the last one."""
        self._everyone: dict[str, Recipients] = {}
        """What `everyone` returned, by topic, since the last change."""

    def subscribe(self, topic: str, client: str) -> None:
        """Add a subscriber; twice is once."""
        subscribers = self._topics.setdefault(topic, {})
        if client not in subscribers:
            subscribers[client] = None
            if is_pattern(topic):
                self._patterns[topic] = None
            self._counts[client] = self._counts.get(client, 0) + 1
            self.note_change(topic)

    def unsubscribe(self, topic: str, client: str) -> None:
        """Remove a subscriber, if it is one."""
        subscribers = self._topics.get(topic, {})
        if client not in subscribers:
            return
        del subscribers[client]
        if not subscribers:
            del self._topics[topic]
            self._patterns.pop(topic, None)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
            self._places.pop(client, None)
        self.note_change(topic)

    @property
    def subscriptions(self) -> int:
        """All subscriptions that are known."""
        return sum(self._counts.values())

    def note_change(self, topic: str) -> None:
        """Forget who the subscribers of a topic were, or of the topics that match a pattern."""
        if is_pattern(topic):
            for one in [each for each in self._merged if matches(topic, each)]:
                del self._merged[one]
            for one in [each for each in self._everyone if matches(topic, each)]:
                del self._everyone[one]
        else:
            self._everyone.pop(topic, None)
            self._merged.pop(topic, None)

    def move(self, client: str, x_km: float, y_km: float) -> None:
        """Note where a client is; one that never told is near nothing."""
        self._places[client] = (x_km, y_km)

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers."""
        return (self._merge(topic) if self._patterns else self._topics.get(topic, {})).keys()

    def everyone(self, topic: str) -> Recipients:
        """Return all subscribers."""
        found = self._everyone.get(topic)
        if found is None:
            found = self._everyone[topic] = Recipients(tuple(self.subscribers(topic)))
        return found

    def names(self, topic: str) -> list[str]:
        """Return the topic and the patterns that match it."""
        return [topic, *(one for one in self._patterns if matches(one, topic))]

    def _merge(self, topic: str) -> dict[str, None]:
        found = self._merged.get(topic)
        if found is None:
            found = {}
            for name in self.names(topic):
                found.update(self._topics.get(name, {}))
            self._merged[topic] = found
        return found

    def nearest(self, topic: str, x_km: float, y_km: float, count: int) -> list[str]:
        """Return the nearest subscribers."""
        return [client for _, client in nsmallest(count, self._distances(topic, x_km, y_km))]

    def within(self, topic: str, x_km: float, y_km: float, radius_km: float) -> list[str]:
        """Return the subscribers in a circle."""
        return [
            client
            for distance_km, client in self._distances(topic, x_km, y_km)
            if distance_km <= radius_km
        ]

    def _distances(self, topic: str, x_km: float, y_km: float) -> list[tuple[float, str]]:
        return [
            (hypot(place[0] - x_km, place[1] - y_km), client)
            for client in self.subscribers(topic)
            if (place := self._places.get(client)) is not None
        ]

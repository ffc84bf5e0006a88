"""From audiences to client ids: the seam to whatever knows subscribers and their positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import nsmallest
from math import hypot
from typing import Protocol

import msgspec

from nearcast.broker.notifications import (
    AllSubscribers,
    Audience,
    InCircle,
    NamedClients,
    NearestClients,
)

__all__ = ["Recipients", "SubscriberLookup", "SubscriberTable", "resolve"]


class Recipients(msgspec.Struct):
    """The clients of an audience; those of "all subscribers" are kept until one more subscribes."""

    clients: tuple[str, ...]
    by_home: dict[str, tuple[str, ...]] | None = None
    """The same by the servers that deliver to them, once somebody has found that out."""


class SubscriberLookup(Protocol):
    """Who subscribes to a topic, and where they are; asked for each notification."""

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers; membership tests must be quick."""
        ...

    def everyone_but(self, topic: str, client: str) -> Recipients:
        """Return all subscribers but one; the same object again while nothing changes."""
        ...

    def nearest(self, topic: str, x_km: float, y_km: float, count: int) -> Iterable[str]:
        """Return the nearest subscribers, the nearest first, equally near ones by id."""
        ...

    def within(self, topic: str, x_km: float, y_km: float, radius_km: float) -> Iterable[str]:
        """Return the subscribers in a circle, its edge included."""
        ...


def resolve(lookup: SubscriberLookup, topic: str, audience: Audience, cause: str) -> Recipients:
    """Return the clients of an audience; `cause` is the publisher that need not be told."""
    match audience:
        case AllSubscribers():
            return lookup.everyone_but(topic, cause)
        case NamedClients(clients):
            subscribers = lookup.subscribers(topic)
            return Recipients(tuple(one for one in dict.fromkeys(clients) if one in subscribers))
        case NearestClients(x_km, y_km, count):
            # one more, because the publisher itself is often the nearest
            found = lookup.nearest(topic, x_km, y_km, count + 1)
            return Recipients(tuple(client for client in found if client != cause)[:count])
        case InCircle(x_km, y_km, radius_km):
            found = lookup.within(topic, x_km, y_km, radius_km)
            return Recipients(tuple(client for client in found if client != cause))
        case _:
            raise TypeError(f"{audience!r} is not an audience")


class SubscriberTable:
    """Subscribers in plain dictionaries: for tests, simulations and a few thousand clients."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None]] = {}
        self._places: dict[str, tuple[float, float]] = {}
        self._everyone: dict[str, dict[str | None, Recipients]] = {}
        """What `everyone_but` returned, by topic and left-out subscriber, since the last change."""

    def subscribe(self, topic: str, client: str) -> None:
        """Add a subscriber; twice is once."""
        self._topics.setdefault(topic, {})[client] = None
        self.note_change(topic)

    def unsubscribe(self, topic: str, client: str) -> None:
        """Remove a subscriber, if it is one."""
        self._topics.get(topic, {}).pop(client, None)
        self.note_change(topic)

    def note_change(self, topic: str) -> None:
        """Forget what `everyone_but` returned."""
        self._everyone.pop(topic, None)

    def move(self, client: str, x_km: float, y_km: float) -> None:
        """Note where a client is; one that never told is near nothing."""
        self._places[client] = (x_km, y_km)

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers in the order they came."""
        return self._topics.get(topic, {}).keys()

    def everyone_but(self, topic: str, client: str) -> Recipients:
        """Return all subscribers but one."""
        known = self._everyone.get(topic)
        if known is None:
            known = self._everyone[topic] = {}
        subscribers = self._topics.get(topic, {})
        left_out = client if client in subscribers else None
        found = known.get(left_out)
        if found is None:
            found = known[left_out] = Recipients(
                tuple(one for one in subscribers if one != left_out)
            )
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

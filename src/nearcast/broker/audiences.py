"""From audiences to client ids: the seam to whatever knows subscribers and their positions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from heapq import nsmallest
from itertools import islice
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
from nearcast.broker.reaches import SLACK_KM
from nearcast.broker.selective import SelectiveSubscribers
from nearcast.geo.place_grid import PlaceGrid
from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire.areas import area_of, bounds_of
from nearcast.wire.envelope import EMPTY, Envelope
from nearcast.wire.messages import Notify
from nearcast.wire.terms import Place, Terms

__all__ = [
    "OutgoingNotification",
    "Recipients",
    "SubscriberLookup",
    "SubscriberTable",
    "nearest_of",
    "resolve",
]

_FEW = 64
"""Subscribers that are looked at one by one."""
_REACHES_KM = (0.25, 1.0, 4.0, 16.0, 64.0, math.inf)
"""How far the nearest are looked for, until there are enough."""


class Recipients(msgspec.Struct, eq=False):
    """The clients of an audience; all subscribers of a topic are kept until another subscribes."""

    clients: tuple[str, ...]
    by_home: dict[str, tuple[str, ...]] | None = None
    """The same by the servers that deliver to them, once somebody has found that out."""
    selective: tuple[SelectiveSubscribers, ...] = ()
    """Others, which want some messages only."""
    always: Recipients | None = None
    """Those of `clients` that are told of every message; they come first."""
    _members: frozenset[str] | None = None

    def __contains__(self, client: str) -> bool:
        if self.always is not None and client in self.always:
            return True
        if self._members is None:
            since = 0 if self.always is None else len(self.always.clients)
            self._members = frozenset(self.clients[since:])
        return client in self._members

    def of(self, envelope: Envelope, place: Place, now_s: float) -> Recipients:
        """Return these and the selective ones that want a message from a place."""
        found = dict.fromkeys(
            one for some in self.selective for one in some.matching(envelope, place, now_s)
        )
        wanting = tuple(one for one in found if one not in self)
        return Recipients((*self.clients, *wanting), always=self) if wanting else self


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
    place: Place | None = None
    """Where that happened, if somebody wants to hear of an area only."""


class SubscriberLookup(Protocol):
    """Who subscribes to a topic, and where they are; asked for each notification."""

    has_areas: bool
    """Whether some subscriber wants to hear of an area only."""

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers; membership tests must be quick."""
        ...

    def everyone(self, topic: str) -> Recipients:
        """Return all subscribers without terms; the same object again while nothing changes."""
        ...

    def nearest(self, topic: str, x_km: float, y_km: float, count: int) -> Iterable[str]:
        """Return the nearest subscribers, the nearest first, equally near ones by id."""
        ...

    def near(self, clients: Recipients, area: str, now_s: float) -> Iterable[str]:
        """Return those of some clients that are in an area or near to it."""
        ...

    def closest(
        self, topic: str, clients: Iterable[str], envelope: Envelope, place: Place, now_s: float
    ) -> Iterable[str]:
        """Return the nearest ones that a message asks for, of clients in its area that want it."""
        ...

    def within(self, topic: str, x_km: float, y_km: float, radius_km: float) -> Iterable[str]:
        """Return the subscribers in a circle, its edge included."""
        ...


def resolve(
    lookup: SubscriberLookup,
    topic: str,
    audience: Audience,
    cause: str,
    envelope: Envelope = EMPTY,
    place: Place = (0.0, 0.0),
    now_s: float = 0.0,
) -> tuple[Recipients, str]:
    """Return the clients of an audience, and the one of them that is not told, or "".

    Subscribers that are out of the message's area, or whose terms rule it out, may be among those
    that a processor has chosen: their homes leave them out.

    Parameters
    ----------
    cause
        The publisher whose message caused it, who need not be told.
    envelope
        Of the notification.
    place
        Where the message happened.
    """
    match audience:
        case AllSubscribers():
            everyone = lookup.everyone(topic)
            if not everyone.selective and not envelope.area:
                return everyone, cause if cause in lookup.subscribers(topic) else ""
            if everyone.selective:
                everyone = everyone.of(envelope, place, now_s)
            if envelope.area:
                everyone = Recipients(tuple(lookup.near(everyone, envelope.area, now_s)))
            return everyone, cause if cause in everyone else ""
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


def nearest_of(
    lookup: SubscriberLookup,
    topic: str,
    audience: Audience,
    cause: str,
    envelope: Envelope,
    place: Place,
    now_s: float,
) -> tuple[Recipients, str]:
    """Return the same of a message for the nearest: who that is, is decided here and for good.

    A home does not know the clients of the others.
    """
    found, left_out = resolve(lookup, topic, audience, cause, envelope, place, now_s)
    others = [one for one in found.clients if one != left_out]
    return Recipients(tuple(lookup.closest(topic, others, envelope, place, now_s))), ""


class SubscriberTable:
    """Subscribers of topics and of patterns; who subscribes to both is told once.

    One with terms is told what any of its subscriptions wants.
    """

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None]] = {}
        """By topic or pattern."""
        self._patterns: dict[str, None] = {}
        self._merged: dict[str, dict[str, None]] = {}
        """By topic: its subscribers and those of patterns that match, since the last change."""
        self._places = PlaceGrid()
        self._counts: dict[str, int] = {}
        """Topics of each subscriber; its place is forgotten with the last one."""
        self._everyone: dict[str, Recipients] = {}
        """What `everyone` returned, by topic, since the last change."""
        self._selective: dict[str, SelectiveSubscribers] = {}
        """By topic or pattern: those of its subscribers that do not want everything."""
        self.has_areas = False
        """Whether some subscriber wants to hear of an area only."""

    def subscribe(self, topic: str, client: str, terms: tuple[Terms, ...] = ()) -> None:
        """Add a subscriber; twice is once. Without terms it wants everything."""
        self._set_terms(topic, client, terms)
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
        self._set_terms(topic, client, ())
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
            self._places.forget(client)
        self.note_change(topic)

    def near(self, clients: Recipients, area: str, now_s: float) -> list[str]:
        """Return those of some clients that are in an area or near to it, as far as they told."""
        bounds = bounds_of(area, now_s).grown(SLACK_KM)
        return [one for one in self._places.inside(*bounds) if one in clients]

    def closest(
        self, topic: str, clients: Iterable[str], envelope: Envelope, place: Place, now_s: float
    ) -> list[str]:
        """Return the nearest ones that a message asks for, as far as clients told where they are.

        Equally near ones by id. Terms are looked at exactly: who is chosen and does not want the
        message would take the place of another.
        """
        known = [(one, where) for one in clients if (where := self._places.get(one)) is not None]
        area, nobody = area_of(envelope.area), [None] * len(known)
        x_km, y_km = area.shape_at(now_s).centre
        inside = area.selects_each([where for _, where in known], nobody, now_s)
        by_distance = sorted(
            (hypot(where[0] - x_km, where[1] - y_km), one)
            for (one, where), is_inside in zip(known, inside, strict=True)
            if is_inside
        )
        wanting = (one for _, one in by_distance if self._wants(topic, one, envelope, place, now_s))
        return list(islice(wanting, area.nearest))

    def _wants(
        self, topic: str, client: str, envelope: Envelope, place: Place, now_s: float
    ) -> bool:
        """Tell whether any of a client's subscriptions lets a message through."""
        return any(
            client in self._topics.get(name, ())
            and (
                (selective := self._selective.get(name)) is None
                or selective.wants(client, envelope, place, now_s)
            )
            for name in self.names(topic)
        )

    def _set_terms(self, topic: str, client: str, terms: tuple[Terms, ...]) -> None:
        selective = self._selective.get(topic)
        if terms:
            if selective is None:
                selective = self._selective[topic] = SelectiveSubscribers(self._places)
            if selective.put(client, terms):
                self._note_terms(topic)
        elif selective is not None and selective.remove(client):
            if not selective:
                del self._selective[topic]
            self._note_terms(topic)

    def _note_terms(self, topic: str) -> None:
        self.has_areas = any(one.has_areas for one in self._selective.values())
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
        self._places.move(client, x_km, y_km)

    def subscribers(self, topic: str) -> Collection[str]:
        """Return all subscribers."""
        return (self._merge(topic) if self._patterns else self._topics.get(topic, {})).keys()

    def everyone(self, topic: str) -> Recipients:
        """Return all subscribers without terms, and where the others are found."""
        found = self._everyone.get(topic)
        if found is None:
            found = self._everyone[topic] = self._find_everyone(topic)
        return found

    def _find_everyone(self, topic: str) -> Recipients:
        names = [name for name in self.names(topic) if name in self._selective]
        if not names:
            return Recipients(tuple(self.subscribers(topic)))
        always = dict.fromkeys(
            client
            for name in self.names(topic)
            for client in self._topics.get(name, ())
            if client not in self._selective.get(name, ())
        )
        return Recipients(tuple(always), selective=tuple(self._selective[name] for name in names))

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
        subscribers, places = self.subscribers(topic), self._places
        near: Iterable[tuple[float, str]] = ()
        if len(subscribers) <= _FEW:
            near = (
                (hypot(place[0] - x_km, place[1] - y_km), client)
                for client in subscribers
                if (place := places.get(client)) is not None
            )
            return [client for _, client in nsmallest(count, near)]
        for reach_km in _REACHES_KM:
            around = places.within(x_km, y_km, reach_km)
            near = [one for one in around if one[1] in subscribers]
            if len(near) >= count:
                break
        return [client for _, client in nsmallest(count, near)]

    def within(self, topic: str, x_km: float, y_km: float, radius_km: float) -> list[str]:
        """Return the subscribers in a circle."""
        subscribers = self.subscribers(topic)
        return [
            client
            for _, client in self._places.within(x_km, y_km, radius_km)
            if client in subscribers
        ]

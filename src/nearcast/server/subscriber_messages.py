"""What homes tell brokers about subscribers; `mesh_messages` has the rest."""

from __future__ import annotations

import msgspec

from nearcast.server.broker_messages import MeshStruct
from nearcast.wire.terms import Terms

__all__ = [
    "Moved",
    "Subscribers",
    "SubscribersKnown",
    "SubscribersWanted",
    "SyncDone",
    "Unsubscribed",
]


class Subscribers(MeshStruct, frozen=True):
    """A home to the brokers of a topic or of topics that a pattern matches: its subscribers.

    With a request and without clients it asks a server whether it has any of these topics.
    """

    topic: str
    clients: tuple[tuple[str, float, float], ...]
    """With their places."""
    complete: bool
    """True: these are all of them there; others that were at this home are gone."""
    request: int = 0
    """Above 0: to be answered by SubscribersKnown."""
    terms: dict[str, Terms] = msgspec.field(default_factory=dict)
    """By client: which messages it wants, if not all."""


class Unsubscribed(MeshStruct, frozen=True):
    """A home to the brokers of a topic: no longer subscribed, or no longer there."""

    topic: str
    clients: tuple[str, ...]


class SubscribersKnown(MeshStruct, frozen=True):
    """Answer to a Subscribers with a request: from now on they are notified.

    Without any topic: the sender has nothing of it, and will ask when that changes.
    """

    request: int
    ends: dict[str, int] = msgspec.field(default_factory=dict)
    """By topic, of those that the sender manages and the subscription concerns: the highest
    offset so far. The subscribers are told of what comes after it."""


class SubscribersWanted(MeshStruct, frozen=True):
    """A server to all others: it has these topics now, and wants to know their subscribers."""

    topics: tuple[str, ...]
    number: int
    """To be answered by SyncDone when they were told; below 0: more topics follow."""
    start: int
    """The offset after which this incarnation of the sender has begun."""


class SyncDone(MeshStruct, frozen=True):
    """Answer to SubscribersWanted: now the other one knows their subscribers here."""

    number: int


class Moved(MeshStruct, frozen=True):
    """A home to brokers: where subscribers are now."""

    clients: tuple[tuple[str, float, float], ...]

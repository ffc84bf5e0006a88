"""Notifications: what a processor says and to whom, and what clients get of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from nearcast.content.attributes import Value
from nearcast.wire.envelope import make_envelope, open_envelope
from nearcast.wire.messages import Notify
from nearcast.wire.publication import Origin, Publication

__all__ = [
    "AllSubscribers",
    "Audience",
    "InCircle",
    "NamedClients",
    "NearestClients",
    "Notification",
    "notify_of",
    "numbered",
    "own_envelope",
]


@dataclass(frozen=True, slots=True)
class AllSubscribers:
    """All subscribers of the topic but the one whose message caused it."""


@dataclass(frozen=True, slots=True)
class NamedClients:
    """These clients, as far as they subscribe to the topic."""

    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NearestClients:
    """The subscribers nearest to a point, but not the one whose message caused it."""

    x_km: float
    y_km: float
    count: int


@dataclass(frozen=True, slots=True)
class InCircle:
    """The subscribers in a circle, but not the one whose message caused it."""

    x_km: float
    y_km: float
    radius_km: float


Audience = AllSubscribers | NamedClients | NearestClients | InCircle


class Notification(msgspec.Struct, frozen=True):
    """What a processor wants to be told, to whom, and because of which message."""

    payload: bytes
    audience: Audience = AllSubscribers()
    cause: Publication | None = None
    """A message of the batch; the last one when it is left out."""
    attributes: dict[str, Value] | None = None
    """What subscribers' filters look at; None: the attributes of the cause."""
    area: str | None = None
    """Who of the audience gets it: clients in this area, as text in km; None: that of the cause,
    empty: wherever they are."""
    valid_until_s: float | None = None
    """Unix time after which nobody is told; None: that of the cause."""
    message_class: str | None = None
    """How urgent it is; None: as its cause, empty: as most messages."""


def notify_of(
    cause: Publication,
    part: int,
    payload: bytes,
    broker: str,
    processed_us: int,
    previous: int = 0,
    envelope: bytes | None = None,
) -> Notify:
    """Return what clients get because of a publication; `processed_us` 0: it is told again."""
    return Notify(
        cause.topic,
        cause.publisher,
        cause.epoch,
        cause.sequence,
        cause.origin is not Origin.ONCE,
        part,
        payload,
        cause.published_us,
        cause.received_us,
        processed_us,
        0,
        max(0, processed_us - cause.arrived_us),
        broker if cause.offset else "",
        cause.offset,
        previous,
        cause.envelope if envelope is None else envelope,
    )


def numbered(
    notifications: Iterable[Notification],
) -> Iterator[tuple[Notification, Publication, int]]:
    """Return notifications with their causes, counted from 0 for each cause."""
    parts: dict[int, int] = {}
    for one in notifications:
        cause = one.cause
        if cause is None:  # the processor's runner puts it in
            raise ValueError("a notification has no cause")
        part = parts.get(id(cause), 0)
        parts[id(cause)] = part + 1
        yield one, cause, part


def own_envelope(one: Notification, cause: Publication) -> bytes | None:
    """Return what is on a notification where a processor wrote something; None: as its cause."""
    until_s = one.valid_until_s
    if one.attributes is None and one.area is None and not until_s and one.message_class is None:
        return None
    before = open_envelope(cause.envelope)
    return make_envelope(
        before.attributes if one.attributes is None else one.attributes,
        before.area if one.area is None else one.area,
        before.valid_until_us if until_s is None else int(until_s * 1e6),
        before.message_class if one.message_class is None else one.message_class,
    )

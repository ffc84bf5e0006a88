"""Notifications: what a processor says, and to whom; and what leaves the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from nearcast.broker.messages import Message

__all__ = [
    "AllSubscribers",
    "Audience",
    "InCircle",
    "NamedClients",
    "NearestClients",
    "Notification",
    "OutgoingNotification",
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
    cause: Message | None = None
    """A message of the batch; the last one when it is left out."""


class OutgoingNotification(NamedTuple):
    """A notification for the homes of its recipients.

    (topic, publisher, durable_publication, epoch, sequence, number) is its identity: after a crash
    the same one may be sent again, and receivers drop what they have seen.
    """

    topic: str
    publisher: str
    epoch: int
    sequence: int
    number: int
    """Counts the notifications that one message caused, from 0."""
    payload: bytes
    recipients: tuple[str, ...]
    durable: bool
    """Whether the message that caused it was synced before."""
    published_at_s: float
    received_at_s: float
    """When the publisher's home got the message that caused it."""
    arrived_at_s: float
    """When this broker got it; all waiting here is counted from then on."""
    durable_publication: bool = True
    """Whether epoch and sequence count the publisher's durable messages or its other ones."""

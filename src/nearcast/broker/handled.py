"""What one event changed in a topic, and what waits until that is durable."""

from __future__ import annotations

import msgspec

from nearcast.broker.actions import Ack, Copy
from nearcast.broker.notifications import OutgoingNotification
from nearcast.spool.changes import Position, TopicChange

__all__ = ["Handled"]


class Handled(msgspec.Struct):
    """What an event changed in a topic, and what may happen once that is durable."""

    records: list[bytes] = msgspec.field(default_factory=list)
    positions: dict[str, Position] = msgspec.field(default_factory=dict)
    """How far publishers have come, by id."""
    change: TopicChange | None = None
    """Records, positions and state in one piece; None when there is nothing to store."""
    notifications: list[OutgoingNotification] = msgspec.field(default_factory=list)
    copies: list[Copy] = msgspec.field(default_factory=list)
    acks: list[Ack] = msgspec.field(default_factory=list)

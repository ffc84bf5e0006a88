"""What a server wants done after each event."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from nearcast.broker.requests import ProcessRequest
from nearcast.server.log_rows import Row
from nearcast.server.site_orders import Orders
from nearcast.spool.changes import Group
from nearcast.wire.actions import Datagram

__all__ = ["Incident", "Outputs", "StageDelays"]


class Incident(NamedTuple):
    """Something for the server's own log."""

    event: str
    fields: dict[str, Any]


StageDelays = tuple[int, int, int]
"""Where a notification spent its time until its subscriber's home sent it, in microseconds:
from the publisher to its home, in the broker, between servers."""


class Outputs(msgspec.Struct):
    """To be done now, in any order; nothing in it waits for the rest."""

    datagrams: list[Datagram] = msgspec.field(default_factory=list)
    mesh: list[tuple[str, bytes]] = msgspec.field(default_factory=list)
    """Frames with the servers that they go to."""
    to_store: list[Group] = msgspec.field(default_factory=list)
    to_process: list[ProcessRequest] = msgspec.field(default_factory=list)
    publications: list[Row] = msgspec.field(default_factory=list)
    """Rows of the event log, with the fields of `PublicationRow`."""
    notifications: list[Row] = msgspec.field(default_factory=list)
    """Rows of the event log, with the fields of `NotificationRow`."""
    incidents: list[Incident] = msgspec.field(default_factory=list)
    delays: list[StageDelays] = msgspec.field(default_factory=list)
    pauses_s: list[float] = msgspec.field(default_factory=list)
    """How long streams waited until this server owned them."""
    orders: Orders | None = None
    """New orders."""
    orders_document: bytes = b""
    """The same as the manager signed them, to be kept on the disk; empty: they are not from it."""

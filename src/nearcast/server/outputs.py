"""What a server wants done after each event."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from nearcast.broker.requests import ProcessRequest
from nearcast.server.log_rows import LogRow
from nearcast.server.site_orders import Orders
from nearcast.spool.changes import Group
from nearcast.wire.actions import SendDatagram

__all__ = ["Incident", "Outputs", "StageDelays"]


class Incident(NamedTuple):
    """Something for the server's own log."""

    event: str
    fields: dict[str, Any]


class StageDelays(NamedTuple):
    """Where a notification spent its time until its subscriber's home sent it, in seconds."""

    publish_leg_s: float
    processing_s: float
    between_s: float


class Outputs(msgspec.Struct):
    """To be done now, in any order; nothing in it waits for the rest."""

    datagrams: list[SendDatagram] = msgspec.field(default_factory=list)
    mesh: list[tuple[str, bytes]] = msgspec.field(default_factory=list)
    """Frames with the servers that they go to."""
    to_store: list[Group] = msgspec.field(default_factory=list)
    to_process: list[ProcessRequest] = msgspec.field(default_factory=list)
    log: list[LogRow] = msgspec.field(default_factory=list)
    incidents: list[Incident] = msgspec.field(default_factory=list)
    delays: list[StageDelays] = msgspec.field(default_factory=list)
    orders: Orders | None = None
    """New orders, to be kept on the disk."""

"""What running flows want done: the answer to every event."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from nearcast.broker.requests import ProcessRequest
from nearcast.flow.messages import FlowMessage
from nearcast.spool.changes import Group
from nearcast.wire.publication import Publication

__all__ = ["FlowActions", "FlowIncident"]


class FlowIncident(NamedTuple):
    """Something that an operator should know of."""

    flow: str
    component: str
    event: str
    """One of a few words: what happened."""
    detail: str


class FlowActions(msgspec.Struct):
    """What is to be done now."""

    sends: list[tuple[str, FlowMessage]] = msgspec.field(default_factory=list)
    """By server, in order."""
    to_store: Group | None = None
    """To be appended to the log at once; `FlowRuntime.on_committed` wants its ticket."""
    publications: list[Publication] = msgspec.field(default_factory=list)
    """Of output topics: to be routed as those of clients; `FlowRuntime.on_published` wants to
    know how far their brokers have them."""
    incidents: list[FlowIncident] = msgspec.field(default_factory=list)
    to_process: list[ProcessRequest] = msgspec.field(default_factory=list)
    """For the host of processors; `FlowRuntime.on_processed` wants each one's result."""

"""What servers and the manager say to each other about flows; `flow.messages` has the rest."""

from __future__ import annotations

import msgspec

from nearcast.flow.flow_report import FlowReport
from nearcast.flow.messages import Part
from nearcast.server.broker_messages import MeshStruct

__all__ = ["FlowEvent", "FlowReports", "MovePart", "RoomAnswer", "RoomWanted"]


class FlowEvent(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened to a flow at a server."""

    at_s: float
    """Unix time."""
    flow: str
    what: str
    is_fault: bool = False
    """Whether something failed; else it was decided or done."""


class FlowReports(MeshStruct, frozen=True):
    """A server to the manager, every few seconds while flows run."""

    flows: tuple[FlowReport, ...] = ()
    per_s: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """By flow and component: messages processed in a second, lately."""
    events: tuple[FlowEvent, ...] = ()
    """The last ones."""


class MovePart(MeshStruct, frozen=True):
    """The manager to a server: hand a part of a component over to another server."""

    flow: str
    component: str
    part: Part
    to_server: str


class RoomWanted(MeshStruct, frozen=True):
    """A server with too much to do to one that offers room: it would hand something over."""

    number: int


class RoomAnswer(MeshStruct, frozen=True):
    """Answer to RoomWanted."""

    number: int
    has_room: bool

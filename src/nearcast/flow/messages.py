"""What servers say to each other about running flows, as MessagePack."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nearcast.routing.keys import INDEX_END, NetPath

__all__ = [
    "Done",
    "Floor",
    "FloorWanted",
    "FlowMessage",
    "HandOver",
    "Held",
    "HeldWanted",
    "Owner",
    "Part",
    "PlacedPart",
    "Refuse",
    "Settled",
    "TakenFrom",
    "Took",
    "Work",
    "WorkItem",
    "where_of",
]

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Index = Annotated[int, Meta(ge=0, lt=INDEX_END)]
RangeEnd = Annotated[int, Meta(ge=0, le=INDEX_END)]


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A range of the indexes of a component, from `low` up to, not with, `high`."""

    net: NetPath | None
    """Of messages from this net only; None: of all nets."""
    low: Index
    high: RangeEnd


class PlacedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part, and the server that has it."""

    part: Part
    server: str


class TakenFrom(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which messages of an outbox have been processed."""

    server: str
    """That has the outbox."""
    topic: str
    birth: Number
    floor: Number
    """All numbers below it."""
    numbers: tuple[Number, ...]
    """And these above it, rising."""


class _Said(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A message: an array that begins with the name of its kind."""

    flow: str
    run: Number
    """Number of the flow's order: a flow that is run again begins anew."""
    component: str


class WorkItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message for a component."""

    number: Number
    """Counts the messages of the outbox; never used twice."""
    after: Number
    """The last one before it in the outbox with the same index that is not done; 0: none."""
    index: Index
    record: bytes
    """Of a publication."""


class Work(_Said, frozen=True):
    """Messages of the sender's outbox of a topic, for who has their indexes."""

    topic: str
    birth: Number
    """Of the outbox: drawn at random when it is made. One that was lost with its disk and is made
    again counts from 1 again."""
    net: NetPath
    floor: Number
    """All numbers of the outbox below it are done."""
    items: tuple[WorkItem, ...]


class Done(_Said, frozen=True):
    """Answer to Work: these are processed, and what came of them is durable."""

    topic: str
    birth: Number
    numbers: tuple[Number, ...]
    part: Part | None
    """What the sender holds around their indexes; None: it has given it away since."""


class Owner(_Said, frozen=True):
    """Answer to Work: what was sent of this part is not processed here, but by another server."""

    part: Part
    server: str
    """Empty: not known here."""


class HandOver(_Said, frozen=True):
    """A part with all that goes with it, from the server that held it."""

    number: Number
    """Of the hand-over: drawn at random, the same in each attempt."""
    attempt: Number
    """Drawn at random each time it is sent."""
    part: Part
    state: bytes | None
    """Of the processor; None: it has none."""
    taken: tuple[TakenFrom, ...]
    exceptions: tuple[PlacedPart, ...]
    """Of a part of all nets: what other servers have of it, for one net each."""


class Took(_Said, frozen=True):
    """Answer to HandOver: it is durable here, and processed here from now on."""

    number: Number


class Refuse(_Said, frozen=True):
    """Answer to HandOver: it stays with the sender of that."""

    number: Number
    attempt: Number
    reason: str


class Settled(_Said, frozen=True):
    """Answer to Took: forget the number; what the part caused at the giver is done everywhere."""

    number: Number


class FloorWanted(_Said, frozen=True):
    """To a server with an outbox: tell how far it is done."""

    topic: str


class Floor(_Said, frozen=True):
    """Answer to FloorWanted: all numbers of the sender's outbox below this one are done."""

    topic: str
    birth: Number
    floor: Number


class HeldWanted(_Said, frozen=True):
    """To all servers, when one that had parts is no longer in the orders: tell who has what."""

    revision: Number
    """Of the orders without it; answer only by these or newer ones."""
    round: Number
    """Drawn at random each time that all are asked."""


class Held(_Said, frozen=True):
    """Answer to HeldWanted."""

    round: Number
    placed: tuple[PlacedPart, ...]
    """What the sender's ledger says; what it is giving away counts as its own until it is taken."""
    under_way: tuple[Part, ...]
    """What it was giving to servers that are gone: it has the states of these."""


FlowMessage = (
    Work
    | Done
    | Owner
    | HandOver
    | Took
    | Refuse
    | Settled
    | FloorWanted
    | Floor
    | HeldWanted
    | Held
)


def where_of(message: HandOver | Took | FloorWanted) -> tuple[str, int, str]:
    """Return flow, run and component of a message."""
    return message.flow, message.run, message.component

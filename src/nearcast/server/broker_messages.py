"""What the brokers of a topic say to each other; `mesh_messages` has all kinds of messages."""

from __future__ import annotations

import msgspec

from nearcast.broker.ownership import Token
from nearcast.broker.state_transfer import Offer
from nearcast.spool.changes import Position

__all__ = [
    "Advance",
    "Claim",
    "Copies",
    "CopyAck",
    "CopyNack",
    "Denied",
    "MeshStruct",
    "Rumours",
    "StateTaken",
    "Yielded",
]


class MeshStruct(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A message between servers: an array that begins with the name of its kind."""


class Copies(MeshStruct, frozen=True):
    """A broker to the topic's other brokers: records to be spooled, not processed."""

    topic: str
    records: tuple[bytes, ...]
    wants_ack: bool = False
    """To be answered by CopyAck when they are durable."""


class CopyAck(MeshStruct, frozen=True):
    """Answer to Copies that want it: durable here as well."""

    topic: str
    position: Position


class CopyNack(MeshStruct, frozen=True):
    """A broker to one that copies to it: records are missing."""

    topic: str
    publisher: str
    epoch: int
    missing: tuple[tuple[int, int], ...]


class Advance(MeshStruct, frozen=True):
    """Answer to CopyNack: what is missing up to `through` is gone; go on without it."""

    topic: str
    publisher: str
    epoch: int
    through: int


class Claim(MeshStruct, frozen=True):
    """A broker to all servers that may have streams of a topic: it wants to process these."""

    topic: str
    publishers: tuple[str, ...]
    token: Token
    whole: bool = False
    """The other one manages the topic no more: its processor's state is wanted too."""


class Yielded(MeshStruct, frozen=True):
    """Answer to a Claim that wins: the streams were given up here, durable this far."""

    topic: str
    token: Token
    positions: tuple[Position, ...]
    offer: Offer = Offer()


class Rumours(MeshStruct, frozen=True):
    """To a server that begins with topics or claims streams: these may have streams of them too."""

    servers: dict[str, tuple[str, ...]]
    """By topic: who has claimed something of it, or has said that it manages it."""
    to: str = ""
    """The server that is to be told this of the sender, which does not reach it."""


class StateTaken(MeshStruct, frozen=True):
    """Answer to a Yielded with a state: it is durable here, and the other one's no more."""

    topic: str
    number: int
    taken: bool = True
    """False: it came too late, and stays where it is."""


class Denied(MeshStruct, frozen=True):
    """Answer to a Claim that loses, and against which."""

    topic: str
    publishers: tuple[str, ...]
    token: Token
    against: Token

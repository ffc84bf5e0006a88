"""What routers send each other, through the overlay or directly."""

from __future__ import annotations

import msgspec

from nearcast.routing.keys import NetPath

__all__ = [
    "Adopt",
    "Ask",
    "Assign",
    "Cancel",
    "ChildRange",
    "Data",
    "Destination",
    "HeldRange",
    "Left",
    "Offered",
    "Refused",
    "Release",
    "Renew",
    "Return",
    "RouteMessage",
    "Search",
    "TakeOver",
    "Took",
    "Undelivered",
]


class _Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    pass


class Data(_Message, frozen=True):
    """A message of a topic on its way to the component that has its index."""

    topic: str
    net: NetPath
    """Where it was published."""
    index: int
    origin: str
    """The peer that published it."""
    number: int
    """With the origin its id; by it duplicates are known."""
    body: bytes
    is_fallback: bool = False
    """On its way to the cloud's owner; is never sent on from there, so it cannot circle."""


class Undelivered(_Message, frozen=True):
    """Tells an origin that no component has the topic."""

    number: int
    topic: str


class Search(_Message, frozen=True):
    """Looks for an underloaded node in a net, for a part of a component."""

    searcher: str
    delegation: int
    net: NetPath
    is_wrapped: bool = False
    """There was no node below the first index: now from the largest one."""


class Offered(_Message, frozen=True):
    """A node keeps itself free for the searcher."""

    delegation: int


class Refused(_Message, frozen=True):
    """A node is not free, or a net has none."""

    delegation: int


class TakeOver(_Message, frozen=True):
    """Asks a replica to take a range, with a key whose unique id is above the original's."""

    delegation: int
    topic: str
    net: NetPath
    low: int
    high: int
    unique_id: int


class Took(_Message, frozen=True):
    """The replica's key is in."""

    delegation: int


class Renew(_Message, frozen=True):
    """A replica that still has its range."""

    delegation: int


class Cancel(_Message, frozen=True):
    """The range is the original's again, or always was; the replica has to go."""

    delegation: int


class HeldRange(_Message, frozen=True):
    """A range with the unique id of its key."""

    low: int
    high: int
    unique_id: int


class ChildRange(_Message, frozen=True):
    """A range that a replica has itself given to another one."""

    delegation: int
    replica: str
    low: int
    high: int
    unique_id: int


class Return(_Message, frozen=True):
    """A replica wants to end; what it holds, and what others hold for it."""

    delegation: int
    held: tuple[HeldRange, ...]
    children: tuple[ChildRange, ...]


class Release(_Message, frozen=True):
    """The original's keys are in: the replica may take out its own."""

    delegation: int


class Left(_Message, frozen=True):
    """The replica's keys are out."""

    delegation: int


class Adopt(_Message, frozen=True):
    """Tells a replica that its original returned its part, and who speaks for it now."""

    delegation: int
    parent: str
    """Who was the original so far."""


class Ask(_Message, frozen=True):
    """Asks the master for the destination of a message."""

    request: int
    topic: str
    index: int


class Destination(_Message, frozen=True):
    """The master's answer; empty: no component has it."""

    request: int
    peer: str


class Assign(_Message, frozen=True):
    """Tells the master who takes a range from now on."""

    topic: str
    low: int
    high: int
    peer: str


RouteMessage = (
    Data
    | Undelivered
    | Search
    | Offered
    | Refused
    | TakeOver
    | Took
    | Renew
    | Cancel
    | Return
    | Release
    | Left
    | Adopt
    | Ask
    | Destination
    | Assign
)

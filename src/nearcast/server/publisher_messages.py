"""What publishers' homes and the servers that process their messages say to each other."""

from __future__ import annotations

from nearcast.server.broker_messages import MeshStruct

__all__ = [
    "Expects",
    "Forward",
    "ForwardAck",
    "ForwardBusy",
    "ForwardNack",
    "ForwardRefuse",
]


class Forward(MeshStruct, frozen=True):
    """A publisher's home to the server that processes its messages: records of one topic."""

    topic: str
    records: tuple[bytes, ...]
    oldest: tuple[int, ...]
    """By record: the lowest sequence that its publisher still needs acknowledged."""
    durable: bool = True
    version: int = 0
    """Of the topic's assignment by which the home goes, see `TopicOrder`."""


class ForwardAck(MeshStruct, frozen=True):
    """The processing server to the publisher's home: durable there up to `through`."""

    topic: str
    publisher: str
    epoch: int
    through: int
    level: int = 1
    """On how many servers."""


class ForwardNack(MeshStruct, frozen=True):
    """The processing server to the publisher's home: messages are missing from `expected` on."""

    topic: str
    publisher: str
    epoch: int
    expected: int
    missing: int = 1
    """How many of them are missing in a row."""


class ForwardBusy(MeshStruct, frozen=True):
    """The processing server to the publisher's home: not taken, try again later."""

    topic: str
    publisher: str
    retry_after_s: float


class ForwardRefuse(MeshStruct, frozen=True):
    """The processing server to the publisher's home: will not be taken; see `wire.Refuse`."""

    topic: str
    publisher: str
    epoch: int
    sequence: int
    durable: bool
    reason: int


class Expects(MeshStruct, frozen=True):
    """A publisher's home to the server that processes its messages: they may come soon."""

    publisher: str
    topics: tuple[str, ...]

"""What a broker wants done: the answer to every event."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from nearcast.broker.audiences import OutgoingNotification
from nearcast.broker.guard import ProcessorReport
from nearcast.broker.ownership import Token
from nearcast.broker.requests import ProcessRequest
from nearcast.broker.sequence_gate import Ranges, Verdict
from nearcast.broker.state_transfer import Offer
from nearcast.spool.changes import Group, Position
from nearcast.wire.publication import Publication

__all__ = [
    "Ack",
    "Actions",
    "Ask",
    "CopiesDurable",
    "Copy",
    "Deny",
    "Nack",
    "Refusal",
    "Taken",
    "TakenOver",
    "Yield",
]


class Ack(NamedTuple):
    """All messages of a publisher's epoch up to this one are durable here."""

    topic: str
    publisher: str
    epoch: int
    through: int
    home: str | None = None
    """The server to tell, which forwards the stream; None: tell the publisher itself."""
    level: int = 1
    """On how many servers they are durable."""


class CopiesDurable(NamedTuple):
    """Says to a broker that copies messages here how far they are durable."""

    to_server: str
    topic: str
    position: Position


class Nack(msgspec.Struct, frozen=True):
    """Messages of a publisher are missing: to be sent again."""

    topic: str
    publisher: str
    epoch: int
    missing: Ranges
    home: str | None = None
    """As for `Ack`."""
    copied_by: str | None = None
    """The broker that copies them here and has to send them; None: they come by `home`."""


class Refusal(msgspec.Struct, frozen=True):
    """A message is not taken, and sending it again would not help."""

    publication: Publication
    reason: Verdict | None
    """None: its topic is not managed here."""
    epoch: int | None = None
    """The publisher's epoch in force, when the message's is older."""
    home: str | None = None
    """As for `Ack`."""


class Copy(msgspec.Struct, frozen=True):
    """Messages for another broker of their topic, in order; durable and processed here."""

    to_server: str
    topic: str
    publications: tuple[Publication, ...]
    wants_ack: bool = False
    """Whether their publishers are acknowledged only when the copies are durable."""
    is_bulk: bool = False
    """Whether other messages need not wait for them."""


class Ask(NamedTuple):
    """A claim for another server: to give up some streams of a topic."""

    to_server: str
    topic: str
    token: Token
    publishers: tuple[str, ...]
    whole: bool = False
    """Whether its processor's state is wanted too: the other one manages the topic no more."""


class Yield(NamedTuple):
    """The answer to a claim that wins: this far the streams have come here, durably."""

    to_server: str
    topic: str
    token: Token
    positions: tuple[Position, ...]
    offer: Offer = Offer()


class Taken(NamedTuple):
    """Says to the server that offered a processor's state that it is durable here, or unwanted."""

    to_server: str
    topic: str
    number: int
    taken: bool = True


class Deny(NamedTuple):
    """The answer to a claim that loses."""

    to_server: str
    topic: str
    token: Token
    publishers: tuple[str, ...]
    against: Token
    """The stronger claim."""


class TakenOver(NamedTuple):
    """A stream that is owned from now on, though servers that may have it did not answer."""

    topic: str
    publisher: str
    given_up: tuple[str, ...]
    """Those servers."""


class Actions(msgspec.Struct):
    """What is to be done now; nothing in it has to wait for the rest."""

    to_store: Group | None = None
    """To be appended to the log; `Broker.on_committed` wants its ticket when it is durable."""
    to_process: list[ProcessRequest] = msgspec.field(default_factory=list)
    """For the host of processors; `Broker.on_processed` wants each one's result."""
    notifications: list[OutgoingNotification] = msgspec.field(default_factory=list)
    copies: list[Copy] = msgspec.field(default_factory=list)
    copy_acks: list[CopiesDurable] = msgspec.field(default_factory=list)
    acks: list[Ack] = msgspec.field(default_factory=list)
    claims: list[Ask | Yield | Deny | Taken] = msgspec.field(default_factory=list)
    claimed: int = 0
    """Streams that were won from others."""
    pauses_s: list[float] = msgspec.field(default_factory=list)
    """How long the streams that are owned from now on have waited for that."""
    states_not_merged: int = 0
    """States of other brokers that the topic's processor could not go on from."""
    taken_over: list[TakenOver] = msgspec.field(default_factory=list)
    """Those of them that were taken from servers which are away."""
    nacks: list[Nack] = msgspec.field(default_factory=list)
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    busy: list[tuple[Publication, str | None]] = msgspec.field(default_factory=list)
    """Not taken, because too many wait for the topic's processor: to be sent again later; each
    with the server that forwarded it. Publishers are told, nobody else repeats anything."""
    reports: list[ProcessorReport] = msgspec.field(default_factory=list)
    duplicates: int = 0
    """Messages that had been taken before."""
    held: int = 0
    """Messages that wait for missing ones."""
    failures: list[tuple[str, Exception]] = msgspec.field(default_factory=list)
    """Bugs, each with the topic that did not get on."""

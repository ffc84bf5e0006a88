"""What the state machines ask of their callers: datagrams to send, events to handle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from nearcast.errors import WireError
from nearcast.trust.credentials import ClientCredential
from nearcast.wire.messages import (
    CloseReason,
    Init,
    Proof,
    RefuseReason,
    Report,
    Resume,
    Subscribe,
    Unsubscribe,
)
from nearcast.wire.noise import KEY_BYTES
from nearcast.wire.notification import Notification
from nearcast.wire.publication import Publication
from nearcast.wire.settings import Address

__all__ = [
    "Acknowledged",
    "ClientEvent",
    "Confirmed",
    "Connected",
    "Datagram",
    "Deliver",
    "Disconnected",
    "EchoReturned",
    "Home",
    "HomeUnreachable",
    "Missed",
    "PublicationRefused",
    "SendDatagram",
    "ServerEvent",
    "SessionClosed",
    "SessionOpened",
]


class Datagram(Protocol):
    """Bytes to be sent once to an address; losing them is allowed."""

    @property
    def address(self) -> Address:
        """Where it goes."""
        ...

    @property
    def data(self) -> bytes:
        """What is sent."""
        ...


class SendDatagram(msgspec.Struct, frozen=True, gc=False):
    """Send these bytes once; losing them is allowed."""

    address: Address
    data: bytes


class SessionOpened(msgspec.Struct, frozen=True, gc=False):
    """A client has proved who it is; it may have had a session before."""

    client: str
    init: Init
    """With the client's first report."""
    address: Address
    """Where it seems to be: nothing larger than an answer goes there before it is proved."""
    credential: ClientCredential
    goes_on: bool = False
    """Whether it takes the place of a session of the same program: what that one had not confirmed
    is sent again, so that nothing is missing between the two."""
    supersedes: bool = False
    """Whether it takes the place of a session of another program of this client, which has ended
    without a word: what that one subscribed to is over, and what it was to hear is not told."""


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """A client sent this message; publications come as they are."""

    client: str
    message: Report | Subscribe | Unsubscribe | Resume | Proof


class SessionClosed(msgspec.Struct, frozen=True, gc=False):
    """A client's session ended; its subscriptions end with it."""

    client: str
    reason: CloseReason
    undelivered: tuple[bytes, ...] = ()
    """Notifications that the client may not have, encoded: for `notify` at its next home."""
    visits: bool = False
    """Whether the client's home is another server."""
    epoch: int = 0
    """Of its program: nobody else is to hear what is undelivered."""


ServerEvent = Publication | SessionOpened | Deliver | SessionClosed
"""Publications come as they were sent: in any order, lost and repeated; the broker sorts them."""


@dataclass(frozen=True, slots=True)
class Home:
    """An edge server as its clients know it."""

    address: Address
    server_key: bytes
    """Its static public key."""
    credential: bytes = field(default=b"", compare=False, repr=False)
    """What the site's authority signed about it, if that is known."""

    def __post_init__(self) -> None:
        host, port = self.address
        if not host or not 0 < port < 1 << 16:
            raise WireError(f"{host!r}, port {port} is not the address of a server")
        if len(self.server_key) != KEY_BYTES:
            raise WireError(f"the key of a server has {KEY_BYTES} bytes")


class Connected(msgspec.Struct, frozen=True, gc=False):
    """The client has a session with this home; subscriptions are asked for again."""

    home: Home
    epoch: int


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    """The session is over; the client connects again unless access was revoked."""

    home: Home
    reason: CloseReason


class HomeUnreachable(msgspec.Struct, frozen=True, gc=False):
    """The home has not answered several INITs; the client goes on trying."""

    home: Home
    tries: int


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """All durable publications of the topic up to this sequence are safe."""

    topic: str
    up_to: int
    level: int = 1
    """On how many servers they are durable."""


class PublicationRefused(msgspec.Struct, frozen=True, gc=False):
    """The server will never take this publication; later ones of the topic go on."""

    topic: str
    sequence: int
    durable: bool
    reason: RefuseReason


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    """The server's answer to a subscription (`subscribed`) or its end."""

    topic: str
    subscribed: bool
    accepted: bool
    reason: str


class Missed(msgspec.Struct, frozen=True, gc=False):
    """Publications of a topic are gone that the client would have been notified of."""

    topic: str
    broker: str
    """The server that had processed them."""
    count: int


class EchoReturned(msgspec.Struct, frozen=True, gc=False):
    """The server returned an echo."""

    payload: bytes
    round_trip_s: float


ClientEvent = (
    Connected
    | Disconnected
    | HomeUnreachable
    | Acknowledged
    | PublicationRefused
    | Confirmed
    | Notification
    | Missed
    | EchoReturned
)

"""The messages of a session as the rest of nearcast sees them; `nearcast.proto` explains each."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from nearcast.wire.group_messages import GroupKey, GroupReceived

__all__ = [
    "TOKEN_BYTES",
    "Acknowledge",
    "Busy",
    "Close",
    "CloseReason",
    "Confirm",
    "Echo",
    "Gap",
    "Heartbeat",
    "Init",
    "Message",
    "Nack",
    "Notify",
    "NotifyFields",
    "Proof",
    "Prove",
    "Publish",
    "Published",
    "Received",
    "Redirect",
    "Refuse",
    "RefuseReason",
    "Report",
    "Resume",
    "Revoked",
    "Route",
    "Subscribe",
    "Unsubscribe",
    "Way",
]


TOKEN_BYTES = 8
"""Length of a Heartbeat's token."""


class CloseReason(IntEnum):
    """Why a session ended."""

    DONE = 0
    MOVED = 1
    STOPPED = 2
    REVOKED = 3
    """The only one after which a client does not come back by itself."""
    REKEY = 4
    """The counter reached its limit: a new handshake is due."""
    SILENT = 5
    """Nothing was heard for three report intervals. Never sent: the other side is away."""
    EXPIRED = 6
    """The client's credential, by this server's clock; others may see it otherwise."""
    UNTRUSTED = 7
    """The server's credential was revoked or has ended. Never sent: the client leaves."""


class RefuseReason(IntEnum):
    """Why a publication is not taken."""

    OTHER = 0
    STALE_EPOCH = 1
    """A higher epoch of its publisher is known: go on with one above that."""
    TOO_LARGE = 2
    """Its notification would not fit into a datagram, or the client's rights allow less."""
    NOT_ALLOWED = 3
    """The client has no right to publish to this topic."""
    TOO_MANY_TOPICS = 4
    """Nobody manages the topic, and the client may bring no more into being, or nobody may."""
    NOT_PROCESSED = 5
    """The site orders a processor for the topic that its broker may not run."""
    TOO_MANY_PUBLISHERS = 6
    """The topic's broker remembers as many publishers as it may."""
    NO_SECOND_SERVER = 7
    """It is durable on one server, and on no second one in time, as its topic wants it."""
    BAD_ENVELOPE = 8
    """Its attributes are not as they have to be."""
    CLASS_NOT_ALLOWED = 9
    """The client has no right to use its class, or the server has none of that name."""


class Init(msgspec.Struct, frozen=True, gc=False):
    """Client to server, in the first message of the handshake."""

    epoch: int = 0
    x_km: float = 0.0
    y_km: float = 0.0
    direction_deg: float = 0.0
    speed_mps: float = 0.0
    credential: bytes = b""
    """Signed by the site's authority; see `trust.credentials`."""
    visits: bool = False
    """Whether it only publishes here, while its home is another server."""
    asks: int = 0
    """Above 0: it wants no session, but this page of the list of revoked servers."""


class Acknowledge(msgspec.Struct, frozen=True, gc=False):
    """Server to client, in the second message of the handshake."""

    session: int
    report_interval_s: float
    epoch: int
    revoked: bytes = b""
    """To a client that asks: as in Revoked."""
    signer: bytes = b""


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """A keep-alive; it asks for an answer unless it is one."""

    token: bytes = b""
    answer: bool = False
    unsettled_ms: int = 0
    """Since when notifications are unconfirmed, in the server's answer to a Report."""
    lost: bool = False
    """Whether notifications of this session were given up."""
    time_us: int = 0
    """The site's time, in the server's answer to a Report."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """Where a client is and how it moves."""

    x_km: float
    y_km: float
    direction_deg: float = 0.0
    speed_mps: float = 0.0


class Publish(msgspec.Struct, frozen=True, gc=False):
    """One publication; its id is (publisher, topic, epoch, durable, sequence)."""

    topic: str
    epoch: int
    sequence: int
    oldest: int
    durable: bool
    payload: bytes
    has_position: bool = False
    x_km: float = 0.0
    y_km: float = 0.0
    published_us: int = 0
    envelope: bytes = b""


class Published(msgspec.Struct, frozen=True, gc=False):
    """All durable publications of a topic up to this sequence are safe."""

    topic: str
    epoch: int
    up_to: int
    level: int = 0
    """On how many servers they are durable; 0: on one."""


class Nack(msgspec.Struct, frozen=True, gc=False):
    """Publications are missing, from `expected` on."""

    topic: str
    epoch: int
    expected: int
    missing: int


class Busy(msgspec.Struct, frozen=True, gc=False):
    """Publish nothing to this topic (empty: to any topic) for a while."""

    topic: str
    retry_after_ms: int


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """Ask for the notifications of a topic."""

    request: int
    topic: str
    resumes: bool = False
    """Whether the client had the subscription before, and wants to hear what it missed."""
    where: str = ""
    """A filter for the messages that it wants; empty: all."""
    area: str = ""
    """Where they have to happen; empty: anywhere."""
    follows: bool = False
    """Whether the area moves with the client."""


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """Ask for no more notifications of a topic."""

    request: int
    topic: str


class Confirm(msgspec.Struct, frozen=True, gc=False):
    """The answer to a Subscribe or Unsubscribe."""

    request: int
    accepted: bool
    reason: str = ""
    starts: int = 0
    """How many Gaps say where the subscription starts."""


class Notify(msgspec.Struct, frozen=True, gc=False):
    """One notification; its id is that of the publication that caused it, and `part`."""

    topic: str
    publisher: str
    epoch: int
    sequence: int
    durable: bool
    part: int
    payload: bytes
    published_us: int = 0
    received_us: int = 0
    processed_us: int = 0
    notified_us: int = 0
    processing_us: int = 0
    broker: str = ""
    offset: int = 0
    previous: int = 0
    """The last sequence before that all subscribers were told of; 0: nobody knows."""
    envelope: bytes = b""


NotifyFields = tuple[
    str, str, int, int, bool, int, bytes, int, int, int, int, int, str, int, int, bytes
]
"""The fields of a Notify in their order, for who makes another object of them."""


class Received(msgspec.Struct, frozen=True, gc=False):
    """Which datagrams of the server arrived: bit n of the bitmap is counter `highest - n`."""

    highest: int
    bitmap: int
    all_below: int = 0
    """All below this one arrived, as far as they are among the last 1,024 up to the highest."""


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """The client's new home."""

    host: str
    port: int
    server_key: bytes
    credential: bytes = b""
    """Signed by the site's authority: that the key is a server's."""


class Close(msgspec.Struct, frozen=True, gc=False):
    """The session ends here."""

    reason: int


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Up to `offset` all was sent that a broker has of a topic, but for what is gone."""

    topic: str
    broker: str
    missed: int
    offset: int
    answer: bool = True
    """Whether it answers a Resume; else it says where a subscription starts."""
    has_more: bool = False
    """In an answer: there is more after the offset, which follows."""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Ask again for what a broker has of a topic after an offset."""

    topic: str
    broker: str
    since: int


class Echo(msgspec.Struct, frozen=True, gc=False):
    """A round-trip test: the server returns it."""

    payload: bytes
    answer: bool = False


class Way(msgspec.Struct, frozen=True, gc=False):
    """A server that takes the client in when its home is gone: number `number` of `count`."""

    number: int
    count: int
    host: str
    port: int
    server_key: bytes
    credential: bytes = b""


class Route(msgspec.Struct, frozen=True, gc=False):
    """Publish a topic straight to this server; through the home when `host` is empty."""

    topic: str
    host: str = ""
    port: int = 0
    server_key: bytes = b""
    credential: bytes = b""


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """A publication is not taken, and sending it again as it is will not help."""

    topic: str
    epoch: int
    sequence: int
    durable: bool
    reason: int


class Prove(msgspec.Struct, frozen=True, gc=False):
    """Prove to the owner of a key that this server is your home."""

    server_key: bytes
    nonce: bytes


class Proof(msgspec.Struct, frozen=True, gc=False):
    """The answer to a Prove; see `home_proof`."""

    server_key: bytes
    nonce: bytes
    tag: bytes


class Revoked(msgspec.Struct, frozen=True, gc=False):
    """One page of the list of servers that no longer count; see `trust.revocations`."""

    document: bytes
    signer: bytes = b""
    """The credential of the server that signed it; empty: the authority did."""


Message = (
    Init
    | Acknowledge
    | Heartbeat
    | Report
    | Publish
    | Published
    | Nack
    | Busy
    | Subscribe
    | Unsubscribe
    | Confirm
    | Notify
    | Received
    | Redirect
    | Close
    | Echo
    | Way
    | Route
    | Refuse
    | Gap
    | Resume
    | Prove
    | Proof
    | Revoked
    | GroupKey
    | GroupReceived
)

"""What servers say to each other, as MessagePack; `peer_channels` carries it in order and once.

Publications travel as their records (`wire.publication`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nearcast.errors import WireError
from nearcast.server.broker_messages import (
    Advance,
    Claim,
    Copies,
    CopyAck,
    CopyNack,
    Denied,
    MeshStruct,
    StateTaken,
    Yielded,
)
from nearcast.server.site_orders import ClientOrder
from nearcast.wire.codec import check_topic

__all__ = [
    "ClientIs",
    "Forgets",
    "Forward",
    "ForwardAck",
    "ForwardBusy",
    "ForwardNack",
    "ForwardRefuse",
    "Hello",
    "LoadReport",
    "Manages",
    "MeshMessage",
    "Moved",
    "NewOrders",
    "Notice",
    "Notices",
    "OrdersShown",
    "Presence",
    "ReplayedNotice",
    "Resume",
    "Resumed",
    "ShowOrders",
    "SpoolDamaged",
    "Subscribers",
    "SubscribersKnown",
    "SubscribersWanted",
    "SyncDone",
    "Undelivered",
    "Unsubscribed",
    "Vouch",
    "WhereIs",
    "WhoIs",
    "decode_mesh",
    "encode_mesh",
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


class SpoolDamaged(MeshStruct, frozen=True):
    """A broker to the topic's other brokers: its spool misses something, send it yours."""

    topic: str


class Notice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A notification for clients at one home."""

    body: bytes
    """Of a Notify frame, without the home's time."""
    clients: tuple[str, ...]
    left_out: str = ""
    """The client of these that is not told."""


class Notices(MeshStruct, frozen=True):
    """A broker to the home of subscribers."""

    notices: tuple[Notice, ...]


class Resume(MeshStruct, frozen=True):
    """A home to a broker: tell again what came after an offset; answered by Resumed."""

    topic: str
    client: str
    """For this client; empty: for all subscribers at the home."""
    since: int


class ReplayedNotice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A notification that is told again."""

    body: bytes
    """Of a Notify frame, without the home's time."""
    clients: tuple[str, ...] | None = None
    """To whom; None: all subscribers but the publisher."""


class Resumed(MeshStruct, frozen=True):
    """A broker to a home: what came after an offset, in as many of these as it takes."""

    topic: str
    client: str
    notices: tuple[ReplayedNotice, ...]
    missed: int
    """Publications that were after the offset and are gone."""
    through: int
    """The last offset that was looked at; later ones are told as they come."""
    is_last: bool
    has_more: bool = False
    """In the last one: there is more after `through`, which has to be asked for."""


class Undelivered(MeshStruct, frozen=True):
    """A client's last home to its next one: notifications that it may not have, encoded."""

    client: str
    frames: tuple[bytes, ...]
    revision: int = 0
    """Of the orders that the sender goes by."""


class Subscribers(MeshStruct, frozen=True):
    """A home to the brokers of a topic or of topics that a pattern matches: its subscribers.

    With a request and without clients it asks a server whether it has any of these topics.
    """

    topic: str
    clients: tuple[tuple[str, float, float], ...]
    """With their places."""
    complete: bool
    """True: these are all of them there; others that were at this home are gone."""
    request: int = 0
    """Above 0: to be answered by SubscribersKnown."""


class Unsubscribed(MeshStruct, frozen=True):
    """A home to the brokers of a topic: no longer subscribed, or no longer there."""

    topic: str
    clients: tuple[str, ...]


class SubscribersKnown(MeshStruct, frozen=True):
    """Answer to a Subscribers with a request: from now on they are notified.

    Without any topic: the sender has nothing of it, and will ask when that changes.
    """

    request: int
    ends: dict[str, int] = msgspec.field(default_factory=dict)
    """By topic, of those that the sender manages and the subscription concerns: the highest
    offset so far. The subscribers are told of what comes after it."""


class SubscribersWanted(MeshStruct, frozen=True):
    """A server to all others: it has these topics now, and wants to know their subscribers."""

    topics: tuple[str, ...]
    number: int
    """To be answered by SyncDone when they were told; below 0: more topics follow."""
    start: int
    """The offset after which this incarnation of the sender has begun."""


class SyncDone(MeshStruct, frozen=True):
    """Answer to SubscribersWanted: now the other one knows their subscribers here."""

    number: int


class Moved(MeshStruct, frozen=True):
    """A home to brokers: where subscribers are now."""

    clients: tuple[tuple[str, float, float], ...]


class Manages(MeshStruct, frozen=True):
    """A server to all others: it manages this topic now, though no orders say so."""

    topic: str
    past: bool = False
    """It only did, and may have streams of it: to be asked by those that claim them."""


class Presence(MeshStruct, frozen=True):
    """A server to another one: are you there? And the answer."""

    answer: bool = False


class Forgets(MeshStruct, frozen=True):
    """A server to all others: it has nothing of this topic any more, nobody used it."""

    topic: str


class Hello(MeshStruct, frozen=True):
    """A server to the manager, when it starts: I have these orders."""

    revision: int


class LoadReport(MeshStruct, frozen=True):
    """A server to the manager, every few seconds."""

    revision: int
    sessions: int
    topics: int
    storage_used: float
    """Sum of the spool sizes of managed topics, in messages."""
    compute_used: float
    """Sum over managed topics of spool size x publishers here."""
    delegated_streams: int
    local_streams: int
    messages: int
    """Publications taken since it started."""
    notifications: int
    loop_lag_s: float
    revocations: bytes = b""
    """The signed list that it goes by, when that is newer than the manager's: which has lost it."""
    pauses_s: tuple[float, ...] = ()
    """How long streams waited until the server owned them, of the last ones."""


class NewOrders(MeshStruct, frozen=True):
    """The manager to a server: `Orders`, signed."""

    document: bytes


class ShowOrders(MeshStruct, frozen=True):
    """A server to one that claims streams by an assignment that is not known here."""


class OrdersShown(MeshStruct, frozen=True):
    """Answer to ShowOrders: the sender's own orders, as the manager signed them."""

    document: bytes


class Vouch(MeshStruct, frozen=True):
    """A client's home to another server, before it speaks of the client: signed credentials."""

    credentials: tuple[bytes, ...]


class WhoIs(MeshStruct, frozen=True):
    """A server to one that spoke of clients for which nobody vouched."""

    clients: tuple[str, ...]


class WhereIs(MeshStruct, frozen=True):
    """A server to the manager: a client came that the orders do not name."""

    client: str


class ClientIs(MeshStruct, frozen=True):
    """Answer to WhereIs."""

    client: str
    order: ClientOrder | None
    """None: the site knows no home of it; it stays where it is."""


MeshMessage = (
    Forward
    | ForwardAck
    | ForwardNack
    | ForwardBusy
    | ForwardRefuse
    | Copies
    | CopyAck
    | CopyNack
    | Advance
    | SpoolDamaged
    | Claim
    | Yielded
    | StateTaken
    | Denied
    | Notices
    | Undelivered
    | Resume
    | Resumed
    | Subscribers
    | SubscribersKnown
    | SubscribersWanted
    | SyncDone
    | Unsubscribed
    | Moved
    | Manages
    | Forgets
    | Presence
    | Hello
    | LoadReport
    | NewOrders
    | ShowOrders
    | OrdersShown
    | Vouch
    | WhoIs
    | WhereIs
    | ClientIs
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[MeshMessage] = msgspec.msgpack.Decoder(MeshMessage)


def encode_mesh(message: MeshMessage) -> bytes:
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode_mesh(data: bytes) -> MeshMessage:
    """Return the message of these bytes; WireError when they are not one."""
    try:
        message = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError
        raise WireError(f"not a message of a server: {error}") from None
    # here for all of them: a topic that no client may be told about must not come to be
    for topic in _topics_of(message):
        problem = check_topic(topic)
        if problem is not None:
            raise WireError(f"{type(message).__name__}: {problem}")
    return message


def _topics_of(message: MeshMessage) -> Iterable[str]:
    if isinstance(message, SubscribersKnown):
        return message.ends
    if isinstance(message, SubscribersWanted):
        return message.topics
    topic = getattr(message, "topic", None)
    return () if topic is None else (topic,)

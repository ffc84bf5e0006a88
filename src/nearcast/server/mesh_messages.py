"""What servers say to each other, as MessagePack; `peer_channels` carries it in order and once.

Publications travel as their records (`wire.publication`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nearcast.errors import WireError
from nearcast.flow.messages import FlowMessage
from nearcast.server.broker_messages import (
    Advance,
    Claim,
    Copies,
    CopyAck,
    CopyNack,
    Denied,
    MeshStruct,
    Rumours,
    StateTaken,
    Yielded,
)
from nearcast.server.flow_messages import FlowReports, MovePart, RoomAnswer, RoomWanted
from nearcast.server.proof_messages import (
    HomeProved,
    OrdersShown,
    ProveHome,
    ShowOrders,
    Vouch,
    WhoIs,
)
from nearcast.server.publisher_messages import (
    Expects,
    Forward,
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    ForwardRefuse,
)
from nearcast.server.ring_messages import RingMessage
from nearcast.server.site_orders import ClientOrder
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    SubscribersKnown,
    SubscribersWanted,
    SyncDone,
    Unsubscribed,
)
from nearcast.wire.codec import check_topic
from nearcast.wire.terms import Place, Terms

__all__ = [
    "Arriving",
    "ClientIs",
    "ClockTold",
    "Forgets",
    "Hello",
    "HomeNotice",
    "LoadReport",
    "Manages",
    "MeshMessage",
    "NewOrders",
    "Notices",
    "Presence",
    "ReplayedNotice",
    "Resume",
    "Resumed",
    "SpoolDamaged",
    "Undelivered",
    "WhereIs",
    "decode_mesh",
    "encode_mesh",
]


class SpoolDamaged(MeshStruct, frozen=True):
    """A broker to the topic's other brokers: its spool misses something, send it yours."""

    topic: str


class HomeNotice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A notification for clients at one home."""

    body: bytes
    """Of a Notify frame, without the home's time."""
    clients: tuple[str, ...]
    left_out: str = ""
    """The client of these that is not told."""
    place: Place | None = None
    """Where the message happened, if somebody wants to hear of an area only."""


class Notices(MeshStruct, frozen=True):
    """A broker to the home of subscribers."""

    notices: tuple[HomeNotice, ...]
    urgent: bool = False
    """Whether they may have overtaken others of the same topic."""


class Resume(MeshStruct, frozen=True):
    """A home to a broker: tell again what came after an offset; answered by Resumed."""

    topic: str
    client: str
    """For this client; empty: for all subscribers at the home."""
    since: int
    number: int = 0
    """Names the question; its answers repeat it, and those to earlier ones say nothing."""


class ReplayedNotice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A notification that is told again."""

    body: bytes
    """Of a Notify frame, without the home's time."""
    clients: tuple[str, ...] | None = None
    """To whom; None: all subscribers but the publisher."""
    place: Place | None = None
    """Where the message happened."""


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
    number: int = 0
    """Of the question."""


class Arriving(MeshStruct, frozen=True):
    """A client's home to the server that will probably be the next one: have all ready.

    It comes again while the client approaches; what it says replaces what was said before.
    """

    client: str
    x_km: float
    y_km: float
    direction_deg: float
    speed_mps: float
    subscriptions: tuple[tuple[str, Terms], ...]


class Undelivered(MeshStruct, frozen=True):
    """A client's last home to its next one: notifications that it may not have, encoded."""

    client: str
    frames: tuple[bytes, ...]
    revision: int = 0
    """Of the orders that the sender goes by."""
    epoch: int = 0
    """Of the client's program that lacks them; 0: unknown."""


class Manages(MeshStruct, frozen=True):
    """A server to all others: it manages this topic now, though no orders say so."""

    topic: str
    past: bool = False
    """It only did, and may have streams of it: to be asked by those that claim them."""
    publisher: str = ""
    """A client there that publishes it, and can prove where it is; for topics without orders."""


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
    asked_us: int = 0
    """What the server's own clock shows; it wants to know what the manager's does."""


class ClockTold(MeshStruct, frozen=True):
    """The manager to a server that has reported: what the manager's clock shows."""

    asked_us: int
    """As the report says."""
    told_us: int


class NewOrders(MeshStruct, frozen=True):
    """The manager to a server: `Orders`, signed."""

    document: bytes


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
    | Expects
    | Copies
    | CopyAck
    | CopyNack
    | Advance
    | SpoolDamaged
    | Claim
    | Yielded
    | Rumours
    | StateTaken
    | Denied
    | Notices
    | Arriving
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
    | ClockTold
    | NewOrders
    | ShowOrders
    | OrdersShown
    | Vouch
    | WhoIs
    | ProveHome
    | HomeProved
    | WhereIs
    | ClientIs
    | FlowReports
    | MovePart
    | RoomWanted
    | RoomAnswer
    | FlowMessage
    | RingMessage
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
    if isinstance(message, Rumours):
        return message.servers
    if isinstance(message, Expects | SubscribersWanted):
        return message.topics
    if isinstance(message, Arriving):
        return [topic for topic, _ in message.subscriptions]
    topic = getattr(message, "topic", None)
    return () if topic is None else (topic,)

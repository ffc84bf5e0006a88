"""What servers say to each other, as MessagePack; `peer_channels` carries it in order and once.

Publications travel as their records (`wire.publication`).
"""

from __future__ import annotations

import msgspec

from nearcast.broker.ownership import Token
from nearcast.broker.state_transfer import Offer
from nearcast.errors import WireError
from nearcast.server.site_orders import ClientOrder
from nearcast.spool.changes import Position

__all__ = [
    "Advance",
    "Claim",
    "ClientIs",
    "Copies",
    "CopyNack",
    "Denied",
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
    "Presence",
    "ReplayedNotice",
    "Resume",
    "Resumed",
    "SpoolDamaged",
    "StateTaken",
    "Subscribers",
    "SubscribersKnown",
    "SyncDone",
    "Undelivered",
    "Unsubscribed",
    "Vouch",
    "WhereIs",
    "WhoIs",
    "Yielded",
    "decode_mesh",
    "encode_mesh",
]


class _Base(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Forward(_Base, frozen=True):
    """A publisher's home to the server that processes its messages: records of one topic."""

    topic: str
    records: tuple[bytes, ...]
    oldest: tuple[int, ...]
    """By record: the lowest sequence that its publisher still needs acknowledged."""
    durable: bool = True
    version: int = 0
    """Of the topic's assignment by which the home goes, see `TopicOrder`."""


class ForwardAck(_Base, frozen=True):
    """The processing server to the publisher's home: durable there up to `through`."""

    topic: str
    publisher: str
    epoch: int
    through: int


class ForwardNack(_Base, frozen=True):
    """The processing server to the publisher's home: messages are missing from `expected` on."""

    topic: str
    publisher: str
    epoch: int
    expected: int
    missing: int = 1
    """How many of them are missing in a row."""


class ForwardBusy(_Base, frozen=True):
    """The processing server to the publisher's home: not taken, try again later."""

    topic: str
    publisher: str
    retry_after_s: float


class ForwardRefuse(_Base, frozen=True):
    """The processing server to the publisher's home: will not be taken; see `wire.Refuse`."""

    topic: str
    publisher: str
    epoch: int
    sequence: int
    durable: bool
    reason: int


class Copies(_Base, frozen=True):
    """A broker to the topic's other brokers: records to be spooled, not processed."""

    topic: str
    records: tuple[bytes, ...]


class CopyNack(_Base, frozen=True):
    """A broker to one that copies to it: records are missing."""

    topic: str
    publisher: str
    epoch: int
    missing: tuple[tuple[int, int], ...]


class Advance(_Base, frozen=True):
    """Answer to CopyNack: what is missing up to `through` is gone; go on without it."""

    topic: str
    publisher: str
    epoch: int
    through: int


class Claim(_Base, frozen=True):
    """A broker to all servers that may have streams of a topic: it wants to process these."""

    topic: str
    publishers: tuple[str, ...]
    token: Token
    whole: bool = False
    """The other one manages the topic no more: its processor's state is wanted too."""


class Yielded(_Base, frozen=True):
    """Answer to a Claim that wins: the streams were given up here, durable this far."""

    topic: str
    token: Token
    positions: tuple[Position, ...]
    offer: Offer = Offer()


class StateTaken(_Base, frozen=True):
    """Answer to a Yielded with a state: it is durable here, and the other one's no more."""

    topic: str
    number: int
    taken: bool = True
    """False: it came too late, and stays where it is."""


class Denied(_Base, frozen=True):
    """Answer to a Claim that loses, and against which."""

    topic: str
    publishers: tuple[str, ...]
    token: Token
    against: Token


class SpoolDamaged(_Base, frozen=True):
    """A broker to the topic's other brokers: its spool misses something, send it yours."""

    topic: str


class Notice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A notification for clients at one home."""

    body: bytes
    """Of a Notify frame, without the home's time."""
    clients: tuple[str, ...]
    left_out: str = ""
    """The client of these that is not told."""


class Notices(_Base, frozen=True):
    """A broker to the home of subscribers."""

    notices: tuple[Notice, ...]


class Resume(_Base, frozen=True):
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


class Resumed(_Base, frozen=True):
    """A broker to a home: what came after an offset, in as many of these as it takes."""

    topic: str
    client: str
    notices: tuple[ReplayedNotice, ...]
    missed: int
    """Publications that were after the offset and are gone."""
    through: int
    """The last offset that was looked at; later ones are told as they come."""
    is_last: bool


class Undelivered(_Base, frozen=True):
    """A client's last home to its next one: notifications that it may not have, encoded."""

    client: str
    frames: tuple[bytes, ...]
    revision: int = 0
    """Of the orders that the sender goes by."""


class Subscribers(_Base, frozen=True):
    """A home to the brokers of a topic: its subscribers with their places."""

    topic: str
    clients: tuple[tuple[str, float, float], ...]
    complete: bool
    """True: these are all of them there; others that were at this home are gone."""
    request: int = 0
    """Above 0: to be answered by SubscribersKnown."""


class Unsubscribed(_Base, frozen=True):
    """A home to the brokers of a topic: no longer subscribed, or no longer there."""

    topic: str
    clients: tuple[str, ...]


class SubscribersKnown(_Base, frozen=True):
    """Answer to a Subscribers with a request: from now on they are notified."""

    request: int
    ends: dict[str, int] = {}
    """By topic, of those that the sender manages and the subscription concerns: the highest
    offset so far. The subscribers are told of what comes after it."""


class SyncDone(_Base, frozen=True):
    """Ends what a server tells one that restarted: now that one knows all subscribers here."""


class Moved(_Base, frozen=True):
    """A home to brokers: where subscribers are now."""

    clients: tuple[tuple[str, float, float], ...]


class Manages(_Base, frozen=True):
    """A server to all others: it manages this topic now and wants to know its subscribers."""

    topic: str
    past: bool = False
    """It only did, and may have streams of it: to be asked by those that claim them."""


class Presence(_Base, frozen=True):
    """A server to another one: are you there? And the answer."""

    answer: bool = False


class Forgets(_Base, frozen=True):
    """A server to all others: it has nothing of this topic any more, nobody used it."""

    topic: str


class Hello(_Base, frozen=True):
    """A server to the manager, when it starts: I have these orders."""

    revision: int


class LoadReport(_Base, frozen=True):
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


class NewOrders(_Base, frozen=True):
    """The manager to a server: `Orders`, signed."""

    document: bytes


class Vouch(_Base, frozen=True):
    """A client's home to another server, before it speaks of the client: signed credentials."""

    credentials: tuple[bytes, ...]


class WhoIs(_Base, frozen=True):
    """A server to one that spoke of clients for which nobody vouched."""

    clients: tuple[str, ...]


class WhereIs(_Base, frozen=True):
    """A server to the manager: a client came that the orders do not name."""

    client: str


class ClientIs(_Base, frozen=True):
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
    | SyncDone
    | Unsubscribed
    | Moved
    | Manages
    | Forgets
    | Presence
    | Hello
    | LoadReport
    | NewOrders
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
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError
        raise WireError(f"not a message of a server: {error}") from None

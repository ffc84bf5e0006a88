"""What peers of a Suzaku overlay say to each other; as bytes: MessagePack arrays.

`to` is the receiving node. Answers repeat the `request` of the question.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from nearcast.errors import WireError
from nearcast.overlay.nodes import LinkSeq, NodeOf
from nearcast.overlay.overlay import Rule

__all__ = [
    "MAX_LEVELS",
    "Answer",
    "Candidates",
    "Codec",
    "EntryAnswer",
    "GetCandidates",
    "GetEntry",
    "Gone",
    "HopAck",
    "LinkChange",
    "Message",
    "Piece",
    "Propagate",
    "RangeAnswer",
    "RangeSend",
    "RemoveEntry",
    "RemoveReverse",
    "Route",
    "RouteKind",
    "SetL",
    "SetR",
    "SetRAck",
    "SetRNak",
]

K = TypeVar("K")

MAX_LEVELS = 63

_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Level = Annotated[int, Meta(ge=0, lt=MAX_LEVELS)]
_MOST = 1024
"""Members of a list in a message."""
_SHORT = 16


class LinkChange(IntEnum):
    """What a SetR does."""

    INSERT = 0
    DELETE = 1
    REPAIR_LEFT = 2
    """The asker keeps its right neighbour."""
    REPAIR_BOTH = 3
    """The asker takes over the receiver's right neighbour."""


class RouteKind(IntEnum):
    """What is to happen at the responsible node."""

    DELIVER = 0
    LOOKUP = 1


class Message(Struct, Generic[K], frozen=True, array_like=True, tag=True):
    """An array that begins with the name of its kind."""


class SetR(Message[K], Generic[K], frozen=True):
    """Set your right neighbour to `rnew`, if it is `rcur` now."""

    to: NodeOf[K]
    request: _Number
    asker: NodeOf[K]
    change: LinkChange
    rnew: NodeOf[K]
    rcur: NodeOf[K]
    rnewseq: LinkSeq
    reverse: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_MOST)] = ()
    """Of a node that leaves: who points at it."""


class SetRAck(Message[K], Generic[K], frozen=True):
    """It is set; `rseq` numbers the asker's link to the right."""

    to: NodeOf[K]
    request: _Number
    rseq: LinkSeq
    neighbours: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]


class SetRNak(Message[K], Generic[K], frozen=True):
    """It is not set; between which nodes to try instead, if known."""

    to: NodeOf[K]
    request: _Number
    left: NodeOf[K] | None
    right: NodeOf[K] | None


class SetL(Message[K], Generic[K], frozen=True):
    """Your left neighbour is `lnew`, unless you know of a newer link."""

    to: NodeOf[K]
    lnew: NodeOf[K]
    seq: LinkSeq
    neighbours: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]


class Propagate(Message[K], Generic[K], frozen=True):
    """Your nearest left nodes; tell your right node its own, up to `limit`."""

    to: NodeOf[K]
    neighbours: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]
    limit: NodeOf[K]


class GetCandidates(Message[K], Generic[K], frozen=True):
    """Tell the nodes that you know between you and me, and your right link."""

    to: NodeOf[K]
    request: _Number
    asker: NodeOf[K]


class Candidates(Message[K], Generic[K], frozen=True):
    """Answer to GetCandidates."""

    to: NodeOf[K]
    request: _Number
    is_member: bool
    """Whether the answering node is on the ring, as far as it knows."""
    nodes: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]
    right: NodeOf[K]
    """Its right node; where it wants to be left of while it joins; itself when it does not."""
    rseq: LinkSeq


class GetEntry(Message[K], Generic[K], frozen=True):
    """One step of the asker's tables: tell your finger at this level."""

    to: NodeOf[K]
    request: _Number
    asker: NodeOf[K]
    forward: bool
    level: _Level
    own: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]
    """The asker's entry, for passive update 1."""
    far: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)] = ()
    """The asker's finger of this level on its other side, for passive update 2."""


class EntryAnswer(Message[K], Generic[K], frozen=True):
    """Answer to GetEntry: the answering node's own entry, and its finger at that level."""

    to: NodeOf[K]
    request: _Number
    own: Annotated[tuple[NodeOf[K], ...], Meta(min_length=1, max_length=_SHORT)]
    finger: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_SHORT)]


class RemoveReverse(Message[K], Generic[K], frozen=True):
    """`node` has no finger to you any more."""

    to: NodeOf[K]
    node: NodeOf[K]


class RemoveEntry(Message[K], Generic[K], frozen=True):
    """A node left; point at the node before it, which sends this, if that can remember it."""

    to: NodeOf[K]
    leaver: NodeOf[K]
    replacement: Annotated[tuple[NodeOf[K], ...], Meta(min_length=1, max_length=_SHORT)]
    is_remembered: bool
    """Whether you would be told when the replacement leaves too; if not, have no such finger."""


class Gone(Message[K], Generic[K], frozen=True):
    """The node of this request is not here."""

    request: _Number


class Route(Message[K], Generic[K], frozen=True):
    """On its way to the node responsible for a place."""

    to: NodeOf[K] | None
    """None: any node of the peer."""
    hop: _Number
    """For HopAck; 0 wants none."""
    origin: str
    number: _Number
    """Of the origin's message or query."""
    kind: RouteKind
    target: tuple[K, str, int]
    payload: Any
    rule: Rule
    hops: _Number
    is_leftward: bool = False
    path: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_MOST)] = ()


class HopAck(Message[K], Generic[K], frozen=True):
    """A Route or RangeSend was taken."""

    hop: _Number
    is_gone: bool = False
    """Whether the node that it was sent to has left: a finger at it would bring it back here."""


class Answer(Message[K], Generic[K], frozen=True):
    """The responsible node's answer to a lookup."""

    number: _Number
    node: NodeOf[K]
    right: NodeOf[K]
    hops: _Number
    path: Annotated[tuple[NodeOf[K], ...], Meta(max_length=_MOST)] = ()


class Piece(Struct, Generic[K], frozen=True, array_like=True):
    """A part of a range, and the node at which it is to be covered."""

    to: NodeOf[K] | None
    low: tuple[K, str, int]
    high: tuple[K, str, int]


class RangeSend(Message[K], Generic[K], frozen=True):
    """Pieces of a range for one peer."""

    hop: _Number
    origin: str
    number: _Number
    low: K
    """Of the whole range, for the receivers."""
    pieces: Annotated[tuple[Piece[K], ...], Meta(max_length=_MOST)]
    payload: Any
    hops: _Number


class RangeAnswer(Message[K], Generic[K], frozen=True):
    """To the origin of a range: a covered part, and the node in it if there is one."""

    number: _Number
    low: tuple[K, str, int]
    high: tuple[K, str, int]
    node: NodeOf[K] | None


_KINDS: tuple[Any, ...] = (
    SetR, SetRAck, SetRNak, SetL, Propagate, GetCandidates, Candidates, GetEntry, EntryAnswer,
    RemoveReverse, RemoveEntry, Gone, Route, HopAck, Answer, RangeSend, RangeAnswer,
)  # fmt: skip


class Codec:
    """Messages as bytes, for an overlay whose keys have one type.

    Parameters
    ----------
    key_type
        Of all keys, as msgspec checks it; its values have to be ordered and hashable.
    """

    def __init__(self, key_type: Any) -> None:
        union: Any = _KINDS[0][key_type]
        for kind in _KINDS[1:]:
            union = union | kind[key_type]
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Message[Any]] = msgspec.msgpack.Decoder(union)

    def encode(self, message: Message[Any]) -> bytes:
        """Return a message as bytes."""
        return self._encoder.encode(message)

    def decode(self, data: bytes) -> Message[Any]:
        """Return the message; WireError if the bytes are not one."""
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as reason:
            raise WireError(f"not a message of the overlay: {reason}") from reason

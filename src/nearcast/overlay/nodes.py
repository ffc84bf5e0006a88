"""A key's place on the ring, and the order of places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "FIRST_SEQ",
    "LinkSeq",
    "Node",
    "NodeOf",
    "Place",
    "after_key",
    "before_key",
    "closest_before",
    "is_between",
    "next_seq",
    "owns",
    "passes",
    "repaired_seq",
]

K = TypeVar("K")

_LAST_PEER = "\U0010ffff"


class NodeOf(NamedTuple, Generic[K]):
    """One key on the ring; nodes are ordered by key, then peer, then nonce."""

    key: K
    """Of any type with a total order; all keys of one overlay compare with each other."""
    peer: str
    nonce: int
    """Fresh for each insertion, so that a key that is added again is another node."""


Node: TypeAlias = NodeOf[Any]

Place: TypeAlias = tuple[Any, str, int]
"""A node, or a point between nodes."""


class LinkSeq(NamedTuple):
    """The number of a link between two neighbours; of two, the larger is the newer."""

    repair: int
    seq: int


FIRST_SEQ = LinkSeq(0, 0)


def next_seq(number: LinkSeq) -> LinkSeq:
    """Return the number after an insertion or a deletion."""
    return LinkSeq(number.repair, number.seq + 1)


def repaired_seq(number: LinkSeq) -> LinkSeq:
    """Return the number after a repair: newer than all that the old left side can give."""
    return LinkSeq(number.repair + 1, 0)


def after_key(key: Any) -> Place:
    """Return the place after all nodes of a key: what `route` and `lookup` look for."""
    return (key, _LAST_PEER, 0)


def before_key(key: Any) -> Place:
    """Return the place before all nodes of a key: where a range begins or ends."""
    return (key, "", -1)


def is_between(start: Place, place: Place, end: Place) -> bool:
    """Return whether a place is met on the way from start to end, both left out.

    From a place to itself is once round the ring: everything but that place.
    """
    if start < end:
        return start < place < end
    return place > start or place < end


def owns(node: Place, right: Place, place: Place) -> bool:
    """Return whether a node is responsible for a place: it lies in [node, right).

    A node that is its own right neighbour owns everything.
    """
    if node < right:
        return node <= place < right
    return place >= node or place < right


def passes(start: Place, place: Place, end: Place) -> bool:
    """Return whether a place lies in (start, end]; from a place to itself: all do."""
    if start < end:
        return start < place <= end
    return place > start or place <= end


def closest_before(place: Place, nodes: Iterable[Node]) -> Node | None:
    """Return the node nearest to the left of a place on the ring, that place left out."""
    left: Node | None = None
    last: Node | None = None
    for node in nodes:
        if node < place:
            if left is None or node > left:
                left = node
        elif node != place and (last is None or node > last):
            last = node
    return left if left is not None else last

"""A key's place on the ring, and the order of places."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "Node",
    "NodeOf",
    "Place",
    "after_key",
    "before_key",
    "is_between",
    "owns",
    "passes",
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

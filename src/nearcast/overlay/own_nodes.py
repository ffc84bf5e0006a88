"""All nodes of one peer: which of them is responsible, and the best next node to a place."""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.overlay.context import Context
from nearcast.overlay.nodes import Node, Place, owns
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.ring import Status

__all__ = ["OwnNodes"]

_MEMBERS = (Status.IN, Status.DEL)


class OwnNodes:
    """Nodes that are on the ring or join it, and where nodes that left stood."""

    __slots__ = ("_context", "by_key", "by_node", "tombstones")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.by_node: dict[Node, OverlayNode] = {}
        self.by_key: dict[object, OverlayNode] = {}
        self.tombstones: dict[Node, Node] = {}
        """By a node that left: its last left neighbour."""

    def add(self, node: OverlayNode) -> None:
        """Begin to own a node."""
        self.by_node[node.me] = node
        self.by_key[node.me.key] = node

    def remove(self, node: OverlayNode) -> None:
        """End to own a node."""
        del self.by_node[node.me]
        if self.by_key.get(node.me.key) is node:
            del self.by_key[node.me.key]

    def forget(self, node: Node) -> None:
        """Remove a tombstone."""
        self.tombstones.pop(node, None)

    def can_pass_on(self, gone: Node) -> bool:
        """Return whether a way is known for what was sent to a node that is not here."""
        return gone in self.tombstones or next(self.members(), None) is not None

    def members(self) -> Iterator[OverlayNode]:
        """Yield the nodes on the ring."""
        for node in self.by_node.values():
            if node.ring.status in _MEMBERS:
                yield node

    def responsible(self, place: Place) -> OverlayNode | None:
        """Return the own node that is responsible for a place, if it is one."""
        for node in self.members():
            if owns(node.me, node.ring.right, place):
                return node
        return None

    def usable(self) -> Iterator[Node]:
        """Yield the own nodes and what all their tables offer."""
        for node in self.members():
            yield node.me
            yield from node.fingers.usable()

    def next_to(self, place: Place) -> Node | None:
        """Return the known node with the shortest way clockwise to a place."""
        before: Node | None = None
        last: Node | None = None
        for node in self.usable():
            if node <= place:
                if before is None or node > before:
                    before = node
            elif last is None or node > last:
                last = node
        return before if before is not None else last

    def next_leftward(self, place: Place) -> Node | None:
        """Return the next node on the way left to a place; None if an own node is left of it.

        It is the smallest known one right of the place, or else one step to the left.
        """
        first = min(self.members(), key=lambda node: node.me, default=None)
        if first is None or first.me <= place:
            return None
        nearest = min((node for node in self.usable() if node > place), default=first.me)
        if nearest < first.me:
            return nearest
        ring = first.ring
        for node in ring.neighbours:
            if not self._context.is_suspected(node):
                return node
        return ring.left

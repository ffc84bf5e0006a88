"""A Skip Graph: at level i a node is linked to the next with the same i random bits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from nearcast.overlay.context import Chance
from nearcast.overlay.nodes import Node, Place, owns

__all__ = ["SkipGraph"]

_BITS = 64


class SkipGraph:
    """All levels of a Skip Graph; neighbours are exact as soon as a node is inserted."""

    def __init__(self, rng: Chance) -> None:
        self._rng = rng
        self._bits: dict[Node, int] = {}
        self._levels: dict[tuple[int, int], list[Node]] = {(0, 0): []}
        """By level and the bits that its nodes share."""
        self.join_messages = 0
        """To find the neighbours on each level, and three to be linked there."""

    @property
    def nodes(self) -> list[Node]:
        """All nodes, sorted."""
        return self._levels[0, 0]

    def insert(self, node: Node) -> None:
        """Link a node on each level until it is alone there."""
        self._bits[node] = bits = self._rng.getrandbits(_BITS)
        below: list[Node] = []
        for level in range(_BITS + 1):
            shared = bits & ((1 << level) - 1)
            nodes = self._levels.setdefault((level, shared), [])
            if level and below:
                self.join_messages += self._walk(node, below, level, shared)
            insort(nodes, node)
            if len(nodes) == 1:
                return
            self.join_messages += 3
            if len(nodes) == 2 and level:
                self._lift(next(other for other in nodes if other != node), level)
            below = nodes

    def _lift(self, other: Node, level: int) -> None:
        """Put a node that was alone on a level on the level above it too."""
        for above in range(level + 1, _BITS + 1):
            shared = self._bits[other] & ((1 << above) - 1)
            nodes = self._levels.setdefault((above, shared), [])
            if other not in nodes:
                insort(nodes, other)
            if len(nodes) == 1:
                return

    def _walk(self, node: Node, below: list[Node], level: int, shared: int) -> int:
        """Return how many nodes are asked on the level below for one that shares a bit more."""
        start = bisect_right(below, node)
        for steps in range(len(below)):
            other = below[(start + steps) % len(below)]
            if other == node or self._bits[other] & ((1 << level) - 1) == shared:
                return steps + 1
        return len(below)

    def remove(self, node: Node) -> None:
        """Unlink a node on all levels."""
        bits = self._bits.pop(node)
        for level in range(_BITS + 1):
            nodes = self._levels.get((level, bits & ((1 << level) - 1)), [])
            index = bisect_left(nodes, node)
            if index == len(nodes) or nodes[index] != node:
                return
            del nodes[index]

    def right_of(self, node: Node) -> Node:
        """Return the node after another one on the ring."""
        return self.nodes[bisect_right(self.nodes, node) % len(self.nodes)]

    def next_hop(self, node: Node, place: Place) -> Node | None:
        """Return the farthest neighbour on the node's side of the place, or else the left one."""
        if owns(node, self.right_of(node), place):
            return None
        is_right = node <= place
        bits = self._bits[node]
        best: Node | None = None
        for level in range(_BITS + 1):
            nodes = self._levels.get((level, bits & ((1 << level) - 1)), [])
            index = bisect_left(nodes, node) + (1 if is_right else -1)
            if not 0 <= index < len(nodes) or (nodes[index] <= place) != is_right:
                break
            best = nodes[index]
        return best or self.nodes[bisect_left(self.nodes, node) - 1]

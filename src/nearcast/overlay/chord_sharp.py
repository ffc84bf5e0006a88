"""Chord#: forward fingers by rank only, copied from the left node when one joins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from nearcast.overlay.nodes import Node, Place, owns

__all__ = ["ChordSharp"]


class ChordSharp:
    """A ring with one table per node: no backward fingers, nothing is told to others."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._tables: dict[Node, list[Node]] = {}
        """Fingers from level 1 on; level 0 is the right node."""

    def insert(self, node: Node) -> None:
        """Add a node, with the table of the one left of it."""
        left = self.nodes[bisect_left(self.nodes, node) - 1] if self.nodes else None
        copied = self._tables[left] if left is not None else []
        insort(self.nodes, node)
        self._tables[node] = list(copied)

    def remove(self, node: Node) -> None:
        """Take a node out; fingers at it are passed over."""
        self.nodes.remove(node)
        del self._tables[node]

    def converge(self) -> None:
        """Give each node the table that periodic steps end with, level by level."""
        count = len(self.nodes)
        self._tables = {node: [] for node in self.nodes}
        reach = 2
        fingers = self.nodes[1:] + self.nodes[:1]
        while reach < count:
            half = reach // 2
            fingers = fingers[half:] + fingers[:half]
            for node, finger in zip(self.nodes, fingers, strict=True):
                self._tables[node].append(finger)
            reach *= 2

    def right_of(self, node: Node) -> Node:
        """Return the node after another one on the ring."""
        return self.nodes[bisect_right(self.nodes, node) % len(self.nodes)]

    def next_hop(self, node: Node, place: Place) -> Node | None:
        """Return the known node with the shortest way clockwise to the place."""
        right = self.right_of(node)
        if owns(node, right, place):
            return None
        known = [right, *(finger for finger in self._tables[node] if finger in self._tables)]
        before = [one for one in known if one <= place]
        return max(before or known)

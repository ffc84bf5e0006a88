"""A node's finger tables: nodes 2^i places to its right and left, by rank, not by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from nearcast.overlay.context import Context
from nearcast.overlay.messages import MAX_LEVELS, RemoveReverse
from nearcast.overlay.nodes import Node, is_between
from nearcast.overlay.ring import Ring

__all__ = ["Entry", "FingerTables"]


class Entry(NamedTuple):
    """A finger."""

    nodes: tuple[Node, ...]
    """The node, then its left neighbours as back-ups: they do not overshoot either."""
    fetched: float
    """When this was learned."""


Table: TypeAlias = list[Entry | None]


class FingerTables:
    """Forward and backward fingers of one node, and who points at it.

    Level 0 is the ring's right and left neighbour and is never stored here.
    """

    __slots__ = ("_context", "_ring", "backward", "forward", "reverse")

    def __init__(self, context: Context, ring: Ring) -> None:
        self._context, self._ring = context, ring
        self.forward: Table = []
        """By level - 1, as `backward`."""
        self.backward: Table = []
        self.reverse: set[Node] = set()
        """Reverse pointers: nodes that are believed to have a finger to this one."""

    def own_entry(self) -> tuple[Node, ...]:
        """Return this node as others are to store it."""
        return (self._ring.me, *self._ring.neighbours)

    def get(self, forward: bool, level: int) -> Entry | None:
        """Return the finger of a level, if there is one."""
        if level == 0:
            ring = self._ring
            node = ring.right if forward else ring.left
            if node == ring.me:
                return None
            return Entry((node,) if forward else ring.neighbours or (node,), self._context.now)
        table = self.forward if forward else self.backward
        return table[level - 1] if level <= len(table) else None

    def put(self, forward: bool, level: int, nodes: tuple[Node, ...]) -> None:
        """Store a finger that was just heard of; level 0 is the ring's."""
        if level == 0 or level >= MAX_LEVELS or nodes[0] == self._ring.me:
            return
        table = self.forward if forward else self.backward
        while len(table) < level:
            table.append(None)
        old = table[level - 1]
        table[level - 1] = Entry(nodes[: self._context.params.neighbours + 1], self._context.now)
        self.add_reverse(nodes[0])
        if old is not None and old.nodes[0] != nodes[0]:
            self._dropped(old.nodes[0])

    def truncate(self, level: int) -> None:
        """Forget the fingers of a level and of those above it: they pass this node."""
        for table in (self.forward, self.backward):
            dropped = table[level - 1 :]
            del table[level - 1 :]
            for entry in dropped:
                if entry is not None:
                    self._dropped(entry.nodes[0])

    def replace(self, gone: Node, nodes: tuple[Node, ...], is_remembered: bool = True) -> None:
        """Point at another node wherever one that left was pointed at.

        Nowhere, if that one cannot remember who points at it: a finger that is missing costs a hop
        until it is fetched anew, one to a node that is gone costs a timeout each time.
        """
        ring = self._ring
        if nodes[0] == ring.me:
            nodes = (ring.right,)
        self.reverse.discard(gone)
        for table in (self.forward, self.backward):
            for index, entry in enumerate(table):
                if entry is not None and gone in entry.nodes:
                    if entry.nodes[0] != gone:
                        rest = tuple(node for node in entry.nodes if node != gone)
                        table[index] = Entry(rest, entry.fetched)
                    elif nodes[0] == ring.me or not is_remembered:
                        table[index] = None
                    else:
                        table[index] = Entry(nodes, self._context.now)
                        self.add_reverse(nodes[0])

    def add_reverse(self, node: Node) -> bool:
        """Note that a node points at this one; False when there is no room."""
        if node == self._ring.me or node in self.reverse:
            return True
        if len(self.reverse) < self._context.params.reverse_limit:
            self.reverse.add(node)
            return True
        self._context.counters["reverse_pointers_dropped"] += 1
        return False

    def prune_reverse(self) -> None:
        """Forget pointers from nodes up to the right neighbour: it has to be one of the ring's."""
        me, right = self._ring.me, self._ring.right
        if right != me:
            between = [node for node in self.reverse if is_between(me, node, right)]
            self.reverse.difference_update(between)

    def known(self) -> Iterator[Node]:
        """Yield all nodes in the tables, back-ups and neighbours too."""
        ring = self._ring
        yield ring.right
        yield ring.left
        yield from ring.neighbours
        for table in (self.forward, self.backward):
            for entry in table:
                if entry is not None:
                    yield from entry.nodes

    def usable(self) -> Iterator[Node]:
        """Yield one node per finger, the first that is not suspected; the right one always."""
        ring, is_suspected = self._ring, self._context.is_suspected
        yield ring.right
        for node in ring.neighbours or (ring.left,):
            if not is_suspected(node):
                yield node
                break
        for table in (self.forward, self.backward):
            for entry in table:
                if entry is not None:
                    for node in entry.nodes:
                        if not is_suspected(node):
                            yield node
                            break

    def _dropped(self, node: Node) -> None:
        for table in (self.forward, self.backward):
            for entry in table:
                if entry is not None and entry.nodes[0] == node:
                    return
        self._context.send(node, RemoveReverse(node, self._ring.me))

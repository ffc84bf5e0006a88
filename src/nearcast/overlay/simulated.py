"""Overlays to compare with: the graph is shared and exact at once, the ways are hop by hop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from nearcast.overlay.nodes import Node, NodeOf, Place, after_key, before_key
from nearcast.overlay.overlay import (
    Action,
    Delivered,
    Found,
    KeyAdded,
    KeyRemoved,
    NotFound,
    RangeEnded,
    Rule,
    Send,
    Undeliverable,
)

__all__ = ["Graph", "SimulatedOverlay"]


class Graph(Protocol):
    """All nodes of an overlay with their links."""

    @property
    def nodes(self) -> list[Node]:
        """All nodes, sorted."""

    def insert(self, node: Node) -> None:
        """Add a node."""

    def remove(self, node: Node) -> None:
        """Take a node out."""

    def right_of(self, node: Node) -> Node:
        """Return the node after another one on the ring."""

    def next_hop(self, node: Node, place: Place) -> Node | None:
        """Return where a node sends what is for a place; None: it is responsible itself."""


@dataclass(frozen=True, slots=True)
class _Hop:
    to: Node
    origin: str
    query: int
    """0: a payload to deliver."""
    target: Any
    payload: Any
    hops: int
    is_range: bool = False
    """To be delivered at `to`, if it is still there."""


class SimulatedOverlay:
    """One peer of a shared graph."""

    def __init__(self, peer: str, graph: Graph) -> None:
        self.peer = peer
        self._graph = graph
        self._own: dict[Any, Node] = {}
        self._numbers = count(1)

    @property
    def nodes(self) -> Collection[Node]:
        """Own nodes."""
        return self._own.values()

    def add_key(self, key: Any, now: float) -> list[Action]:
        """Add a key at once."""
        if key in self._own:
            return []
        node: Node = NodeOf(key, self.peer, next(self._numbers))
        self._own[key] = node
        self._graph.insert(node)
        return [KeyAdded(node)]

    def remove_key(self, key: Any, now: float) -> list[Action]:
        """Remove a key at once."""
        node = self._own.pop(key, None)
        if node is None:
            return []
        self._graph.remove(node)
        return [KeyRemoved(node)]

    def route(self, target: Any, payload: Any, now: float, rule: Rule = Rule.RING) -> list[Action]:
        """Send a payload on its way from an own node, or from the first node of all."""
        return self._start(0, target, payload)

    def lookup(self, target: Any, now: float, rule: Rule = Rule.RING) -> tuple[int, list[Action]]:
        """Ask for the responsible node."""
        query = next(self._numbers)
        return query, self._start(query, target, None)

    def multicast(self, low: Any, high: Any, payload: Any, now: float) -> tuple[int, list[Action]]:
        """Send a payload to each node of a range, one way for each."""
        query = next(self._numbers)
        inside = [node for node in self._graph.nodes if before_key(low) <= node < before_key(high)]
        actions: list[Action] = []
        for node in inside:
            hop = _Hop(node, self.peer, 0, low, payload, int(node.peer != self.peer), True)
            actions += self._arrive(hop) if node.peer == self.peer else [Send(node.peer, hop)]
        return query, [*actions, RangeEnded(query, tuple(inside), True)]

    def on_message(self, sender: str, message: Any, now: float) -> list[Action]:
        """Take a hop, or the answer to a lookup."""
        if isinstance(message, Found):
            return [message]
        assert isinstance(message, _Hop)
        if message.is_range:
            return self._arrive(message) if message.to in self._own.values() else []
        return self._forward(message)

    def on_timer(self, now: float) -> list[Action]:
        """Do nothing."""
        return []

    def next_wakeup(self) -> float:
        """Return infinity."""
        return float("inf")

    def _start(self, query: int, target: Any, payload: Any) -> list[Action]:
        if not self._graph.nodes:
            if query:
                return [NotFound(query, target)]
            return [Undeliverable(target, payload, self.peer, "there are no keys")]
        node = next(iter(self._own.values()), self._graph.nodes[0])
        return self._forward(_Hop(node, self.peer, query, target, payload, 0))

    def _forward(self, hop: _Hop) -> list[Action]:
        node = hop.to
        if node.peer == self.peer and node not in self._own.values() and self._graph.nodes:
            node = self._graph.nodes[0]
        onward = self._graph.next_hop(node, after_key(hop.target))
        while onward is not None and onward.peer == self.peer:
            node, onward = onward, self._graph.next_hop(onward, after_key(hop.target))
        sent = _Hop(onward or node, hop.origin, hop.query, hop.target, hop.payload, hop.hops + 1)
        return self._arrive(hop, node) if onward is None else [Send(onward.peer, sent)]

    def _arrive(self, hop: _Hop, node: Node | None = None) -> list[Action]:
        node = node or hop.to
        if not hop.query:
            return [Delivered(node, hop.target, hop.payload, hop.origin, hop.hops)]
        found = Found(hop.query, hop.target, node, self._graph.right_of(node), hop.hops)
        return [found] if hop.origin == self.peer else [Send(hop.origin, found)]

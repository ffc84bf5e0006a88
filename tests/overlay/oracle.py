"""The exact overlay: all peers share one sorted list, so each answer is right at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

from nearcast.overlay.nodes import Node, NodeOf, after_key, before_key
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

__all__ = ["Directory", "OracleOverlay"]


class Directory:
    """All nodes of an overlay, sorted."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.nonces = count(1)

    def responsible(self, target: Any) -> Node:
        """Return the node with the largest key that does not exceed the target."""
        return self.nodes[bisect_right(self.nodes, after_key(target)) - 1]

    def right_of(self, node: Node) -> Node:
        """Return the node after another one on the ring."""
        return self.nodes[bisect_right(self.nodes, node) % len(self.nodes)]

    def within(self, low: Any, high: Any) -> list[Node]:
        """Return the nodes with keys in [low, high)."""
        start = bisect_left(self.nodes, before_key(low))
        return self.nodes[start : bisect_left(self.nodes, before_key(high))]


@dataclass(frozen=True, slots=True)
class _Bring:
    origin: str
    nodes: tuple[Node, ...]
    target: Any
    payload: Any
    hops: int
    is_range: bool = False


class OracleOverlay:
    """One peer's view of a `Directory`; a payload takes one hop, whatever the rule."""

    def __init__(self, peer: str, directory: Directory) -> None:
        self.peer = peer
        self._directory = directory
        self._own: dict[Any, Node] = {}
        self._queries = count(1)

    @property
    def nodes(self) -> Collection[Node]:
        """Own nodes."""
        return self._own.values()

    def add_key(self, key: Any, now: float) -> list[Action]:
        """Add a key at once."""
        if key in self._own:
            return []
        node: Node = NodeOf(key, self.peer, next(self._directory.nonces))
        self._own[key] = node
        insort(self._directory.nodes, node)
        return [KeyAdded(node)]

    def remove_key(self, key: Any, now: float) -> list[Action]:
        """Remove a key at once."""
        node = self._own.pop(key, None)
        if node is None:
            return []
        self._directory.nodes.remove(node)
        return [KeyRemoved(node)]

    def route(self, target: Any, payload: Any, now: float, rule: Rule = Rule.RING) -> list[Action]:
        """Send a payload straight to the responsible peer."""
        return self._bring(self.peer, target, payload, 0)

    def lookup(self, target: Any, now: float, rule: Rule = Rule.RING) -> tuple[int, list[Action]]:
        """Answer from the list."""
        query = next(self._queries)
        if not self._directory.nodes:
            return query, [NotFound(query, target)]
        node = self._directory.responsible(target)
        hops = int(node.peer != self.peer)
        return query, [Found(query, target, node, self._directory.right_of(node), hops)]

    def multicast(self, low: Any, high: Any, payload: Any, now: float) -> tuple[int, list[Action]]:
        """Send one message to each peer with nodes in the range."""
        query = next(self._queries)
        nodes = self._directory.within(low, high)
        actions: list[Action] = []
        by_peer = sorted(nodes, key=lambda node: node.peer)
        for peer, group in groupby(by_peer, key=lambda node: node.peer):
            hops = int(peer != self.peer)
            bring = _Bring(self.peer, tuple(group), low, payload, hops, is_range=True)
            actions += [Send(peer, bring)] if hops else self._take(bring)
        return query, [*actions, RangeEnded(query, tuple(nodes), True)]

    def on_message(self, sender: str, message: Any, now: float) -> list[Action]:
        """Deliver; if the node left meanwhile, the next owner gets the routed payload."""
        assert isinstance(message, _Bring)
        if message.is_range:
            return self._take(message)
        return self._bring(message.origin, message.target, message.payload, message.hops)

    def on_timer(self, now: float) -> list[Action]:
        """Do nothing: an oracle waits for nobody."""
        return []

    def next_wakeup(self) -> float:
        """Return infinity."""
        return float("inf")

    def _bring(self, origin: str, target: Any, payload: Any, hops: int) -> list[Action]:
        if not self._directory.nodes:
            return [Undeliverable(target, payload, origin, "there are no keys")]
        node = self._directory.responsible(target)
        if node.peer == self.peer:
            return [Delivered(node, target, payload, origin, hops)]
        return [Send(node.peer, _Bring(origin, (node,), target, payload, hops + 1))]

    def _take(self, bring: _Bring) -> list[Action]:
        own = set(self._own.values())
        return [
            Delivered(node, bring.target, bring.payload, bring.origin, bring.hops)
            for node in bring.nodes
            if node in own
        ]

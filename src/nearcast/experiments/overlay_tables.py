"""A Suzaku ring with the tables that it converges to, made at once instead of by messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.overlay.fingers import Entry
from nearcast.overlay.nodes import LinkSeq
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.testing.overlay_ring import OverlayRing

__all__ = ["converged_ring"]


def converged_ring(keys: Sequence[Any]) -> OverlayRing:
    """Return a ring of keys, each at its own peer, with exact fingers of 2^i ranks."""
    ring = OverlayRing(shares_chance=True)
    nodes = [_placed(ring, key) for key in sorted(keys)]
    count, near = len(nodes), ring.params.neighbours
    entries = []
    for rank, node in enumerate(nodes):
        links = node.ring
        links.left, links.right = nodes[rank - 1].me, nodes[(rank + 1) % count].me
        links.lseq = links.rseq = LinkSeq(0, 1)
        back = range(1, min(near, count - 1) + 1)
        links.neighbours = tuple(nodes[rank - step].me for step in back)
        entries.append(Entry((node.me, *links.neighbours), 0.0))
    for rank, node in enumerate(nodes):
        step = 2
        while step < count:
            forward, backward = entries[(rank + step) % count], entries[rank - step]
            node.fingers.forward.append(forward)
            node.fingers.backward.append(backward)
            node.fingers.reverse.update((forward.nodes[0], backward.nodes[0]))
            step *= 2
    return ring


def _placed(ring: OverlayRing, key: Any) -> OverlayNode:
    peer = ring.start_peer(f"p{key}", contacts=())
    peer.add_key(key, 0.0)
    (node,) = peer.own.by_node.values()
    return node

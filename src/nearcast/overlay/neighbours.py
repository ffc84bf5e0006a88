"""Sets of nearest left nodes: what a node knows for repairs, and tells its right node."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.overlay.nodes import Node, is_between

__all__ = ["neighbour_set"]


def neighbour_set(nodes: Iterable[Node], of: Node, limit: int) -> tuple[Node, ...]:
    """Return the nodes left of one, nearest first, at most once round the ring.

    `nodes` are in the order of walking left; what comes too late or twice is left out.
    """
    chosen: list[Node] = []
    last = of
    for node in nodes:
        if is_between(of, node, last) if chosen else node != of:
            chosen.append(node)
            last = node
            if len(chosen) == limit:
                break
    return tuple(chosen)

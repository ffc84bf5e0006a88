"""What a server's links know of the others, and what operators are told about the links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from nearcast.links.mesh import LinkState, MeshLink, PeerAddress
from nearcast.server.site_orders import ServerOrder

__all__ = ["isolation", "links_down", "links_status", "server_peers"]


def server_peers(orders: Iterable[ServerOrder], own_id: str) -> list[PeerAddress]:
    """Return all other servers that orders name."""
    return [
        PeerAddress(one.server, one.mesh_host, one.mesh_port, one.public_key)
        for one in orders
        if one.server != own_id
    ]


def links_status(mesh: MeshLink) -> dict[str, Any]:
    """Return the links of a server as plain JSON values."""
    return {
        "links": [asdict(state) for state in mesh.states()],
        "links_rejected": dict(mesh.rejected),
    }


def links_down(states: Iterable[LinkState]) -> list[str]:
    """Return which servers cannot be reached, and why."""
    return [f"no link to server {one.server!r}: {one.last_error}" for one in states if one.is_down]


def isolation(states: Iterable[LinkState]) -> list[str]:
    """Return why a server is cut off from all others; nothing while any link works.

    One server that is away must not make all others look unwell: they go on without it.
    """
    states = list(states)
    is_connected = any(state.state == "connected" for state in states)
    return [] if is_connected else links_down(states)

"""Ids under which servers publish what the components of flows make: no client has such a one."""

from __future__ import annotations

__all__ = ["flow_publisher", "is_flow_publisher"]

_PREFIX = "flow:"


def flow_publisher(flow: str, component: str, server: str) -> str:
    """Return the publisher of what a component makes at a server; names of flows have no @."""
    return f"{_PREFIX}{flow}/{component}@{server}"


def is_flow_publisher(publisher: str) -> bool:
    """Tell whether an id is one that no client may have."""
    return publisher.startswith(_PREFIX)

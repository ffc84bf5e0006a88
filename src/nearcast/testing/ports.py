"""Loopback ports for servers that cannot be asked for port 0."""

from __future__ import annotations

import socket

__all__ = ["closed_port"]


def closed_port() -> int:
    """Return a loopback port at which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""What the load process needs from the connections to a system, whatever that system is."""

from __future__ import annotations

import socket
from typing import Protocol

from nearcast.experiments.latency.arrivals import Heard

__all__ = ["READ_BYTES", "Connections", "connect"]

READ_BYTES = 1 << 18


class Connections(Protocol):
    """Open connections of all publishers and subscribers; one thread calls them."""

    heard: list[Heard]
    """One per subscriber."""
    sockets: list[socket.socket]
    """Those to wait for; none where a library reads in threads of its own."""

    def publish(self, number: int, payload: bytes) -> None:
        """Take a message; it may wait for `flush`."""
        ...

    def flush(self) -> None:
        """Send what was published."""
        ...

    def read(self, source: socket.socket) -> None:
        """Read what has arrived at a socket."""
        ...

    def tick(self) -> None:
        """Do what time demands; called every few milliseconds."""
        ...

    def unacknowledged(self) -> int:
        """Return how many publications the system has yet to confirm; 0 where it never does."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def connect(port: int) -> socket.socket:
    """Return a TCP connection to a broker on this machine, without Nagle's delays."""
    found = socket.create_connection(("127.0.0.1", port), timeout=30.0)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return found

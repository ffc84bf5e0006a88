"""The load's sessions with a zenoh worker, through zenoh's own library."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.workload import (
    HEAD,
    PUBLISHERS,
    SUBSCRIBERS,
    TOPICS,
    topic_name,
)
from nearcast.experiments.latency.zenoh_settings import zenoh_config

__all__ = ["ZenohConnections"]


class ZenohConnections:
    """Publishes to ``in/TOPIC``, hears ``out/*``; the library's threads call back."""

    def __init__(self, endpoint: str) -> None:
        zenoh: Any = import_module("zenoh")
        self.heard = [Heard() for _ in range(SUBSCRIBERS)]
        self.sockets: list[socket.socket] = []
        self._sessions = [
            zenoh.open(zenoh_config(zenoh, connect=endpoint))
            for _ in range(PUBLISHERS + SUBSCRIBERS)
        ]
        options = {
            "congestion_control": zenoh.CongestionControl.BLOCK,
            "reliability": zenoh.Reliability.RELIABLE,
        }
        self._publishers = [
            [session.declare_publisher(f"in/{topic_name(at)}", **options) for at in range(TOPICS)]
            for session in self._sessions[:PUBLISHERS]
        ]
        self._subscribers = [
            session.declare_subscriber("out/*", _appending(heard))
            for session, heard in zip(self._sessions[PUBLISHERS:], self.heard, strict=True)
        ]

    def publish(self, number: int, payload: bytes) -> None:
        """Send a message."""
        self._publishers[number % PUBLISHERS][number % TOPICS].put(payload)

    def flush(self) -> None:
        """Nothing waits."""

    def read(self, source: socket.socket) -> None:
        """Not called: there are no sockets."""

    def tick(self) -> None:
        """Nothing here depends on time."""

    def unacknowledged(self) -> int:
        """Return 0: zenoh acknowledges nothing to its users."""
        return 0

    def close(self) -> None:
        """Close all sessions."""
        for session in self._sessions:
            session.close()


def _appending(heard: Heard) -> Callable[[Any], None]:
    heads, at_ns, now_ns = heard.heads, heard.at_ns, time.monotonic_ns

    def on_sample(sample: Any) -> None:
        at_ns.append(now_ns())
        heads.append(sample.payload.to_bytes()[: HEAD.size])

    return on_sample

"""Sending at times that are fixed in advance, whatever comes back, and reading in between.

A delay counts from the time at which a message was to be sent. When the load process or the
system stalls, the messages that should have been sent meanwhile have waited too: counting from
the actual time would leave just those out (coordinated omission).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from select import select

from nearcast.experiments.latency.connections import Connections
from nearcast.experiments.latency.workload import make_payload

__all__ = ["Pacer"]

_TICK_NS = 10_000_000
_LEAD_NS = 20_000_000


class Pacer:
    """Drives the connections of one system."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._tick_ns = 0

    def send(self, first: int, count: int, rate_hz: float) -> array[int]:
        """Send numbered messages at an even pace; return by how many ns each was late."""
        begin_ns = time.monotonic_ns() + _LEAD_NS
        due_ns = [begin_ns + round(index * 1e9 / rate_hz) for index in range(count)]
        late_ns = array("q")
        now_ns, publish = time.monotonic_ns, self._connections.publish

        def send_due() -> None:
            now = now_ns()
            sent = len(late_ns)
            if sent == count or due_ns[sent] > now:
                return
            while sent < count and due_ns[sent] <= now:
                publish(first + sent, make_payload(due_ns[sent], first + sent))
                late_ns.append(now - due_ns[sent])
                sent += 1
            self._connections.flush()

        while len(late_ns) < count:
            self._turn(due_ns[len(late_ns)], send_due)
        return late_ns

    def wait(self, is_done: Callable[[], bool], limit_s: float) -> bool:
        """Read until something is true; tell whether it became so in time."""
        limit_ns = time.monotonic_ns() + round(limit_s * 1e9)
        while not is_done():
            if time.monotonic_ns() > limit_ns:
                return False
            self._turn(limit_ns, lambda: None)
        return True

    def _turn(self, until_ns: int, between: Callable[[], None]) -> None:
        """Wait for a socket or a time, and read; `between` runs as often as it can."""
        connections = self._connections
        between()
        wait_ns = min(until_ns, self._tick_ns) - time.monotonic_ns()
        # unlike epoll and poll it waits for microseconds, and there are few sockets
        for source in select(connections.sockets, (), (), max(0.0, wait_ns / 1e9))[0]:
            connections.read(source)
            between()
        if (now := time.monotonic_ns()) >= self._tick_ns:
            self._tick_ns = now + _TICK_NS
            connections.tick()

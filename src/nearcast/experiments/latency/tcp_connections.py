"""The load's connections to a broker that speaks over TCP: one per publisher and subscriber."""

from __future__ import annotations

import socket
import time
from typing import Protocol

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.connections import READ_BYTES, connect
from nearcast.experiments.latency.workload import PUBLISHERS, SUBSCRIBERS

__all__ = ["BrokerProtocol", "StreamReader", "TcpConnections"]


class StreamReader(Protocol):
    """Finds messages in what a broker sends, however it is cut into reads."""

    def feed(self, data: bytes, heads: list[bytes]) -> int:
        """Append the head of each complete message; return how many there were."""
        ...

    def take_answer(self) -> bytes:
        """Return what the broker has to be answered; empty when nothing is due."""
        ...


class BrokerProtocol(Protocol):
    """What is said to a kind of broker."""

    name: str

    def connect(self, index: int) -> bytes:
        """Return how the connection of this number begins."""
        ...

    def subscribe(self) -> bytes:
        """Return a subscription to all that workers publish."""
        ...

    def publish(self, number: int, payload: bytes) -> bytes:
        """Return a publication for the workers."""
        ...

    def make_reader(self) -> StreamReader:
        """Return a reader for one connection."""
        ...


class TcpConnections:
    """Publishers and subscribers of one broker."""

    def __init__(self, port: int, protocol: BrokerProtocol) -> None:
        self._protocol = protocol
        self.heard = [Heard() for _ in range(SUBSCRIBERS)]
        self._publishers = [connect(port) for _ in range(PUBLISHERS)]
        subscribers = [connect(port) for _ in range(SUBSCRIBERS)]
        self.sockets = [*self._publishers, *subscribers]
        for index, one in enumerate(self.sockets):
            one.sendall(protocol.connect(index))
        for one in subscribers:
            one.sendall(protocol.subscribe())
        self._readers = {one: protocol.make_reader() for one in self.sockets}
        self._heard = dict(zip(subscribers, self.heard, strict=True))
        self._waiting: list[list[bytes]] = [[] for _ in self._publishers]

    def publish(self, number: int, payload: bytes) -> None:
        """Take a message."""
        self._waiting[number % PUBLISHERS].append(self._protocol.publish(number, payload))

    def flush(self) -> None:
        """Send what was published."""
        for one, waiting in zip(self._publishers, self._waiting, strict=True):
            if waiting:
                one.sendall(b"".join(waiting))
                waiting.clear()

    def read(self, source: socket.socket) -> None:
        """Read what has arrived at a socket."""
        data = source.recv(READ_BYTES)
        if not data:
            raise RuntimeError(f"{self._protocol.name} closed a connection")
        now_ns = time.monotonic_ns()
        reader, heard = self._readers[source], self._heard.get(source)
        if heard is None:
            reader.feed(data, [])
        else:
            heard.at_ns += [now_ns] * reader.feed(data, heard.heads)
        if answer := reader.take_answer():
            source.sendall(answer)

    def tick(self) -> None:
        """Nothing here depends on time."""

    def unacknowledged(self) -> int:
        """Return 0: neither NATS core nor QoS 0 acknowledges anything."""
        return 0

    def close(self) -> None:
        """Close all connections."""
        for one in self.sockets:
            one.close()

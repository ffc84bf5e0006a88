"""The load's connections to a NATS server: its text protocol over plain sockets."""

from __future__ import annotations

import socket
import time

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.connections import READ_BYTES, connect
from nearcast.experiments.latency.workload import HEAD, PUBLISHERS, SUBSCRIBERS, topic_name

__all__ = ["NatsConnections", "NatsReader"]

_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n'


class NatsReader:
    """Finds messages in what a server sends, however it is cut into reads."""

    def __init__(self) -> None:
        self._rest = b""
        self.pings = 0
        """PING lines to answer."""

    def feed(self, data: bytes, heads: list[bytes]) -> int:
        """Append the head of each complete message; return how many there were."""
        data = self._rest + data if self._rest else data
        before, at = len(heads), 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"MSG", at):
                begin = end + 2
                after = begin + int(data[data.rfind(b" ", at, end) + 1 : end]) + 2
                if after > len(data):
                    break
                heads.append(data[begin : begin + HEAD.size])
                at = after
                continue
            if data.startswith(b"-ERR", at):
                raise RuntimeError(f"NATS says {data[at:end].decode()}")
            self.pings += data.startswith(b"PING", at)
            at = end + 2
        self._rest = data[at:]
        return len(heads) - before


class NatsConnections:
    """Publishes to ``in.TOPIC``, hears ``out.*``."""

    def __init__(self, port: int) -> None:
        self.heard = [Heard() for _ in range(SUBSCRIBERS)]
        self._publishers = [connect(port) for _ in range(PUBLISHERS)]
        self._subscribers = [connect(port) for _ in range(SUBSCRIBERS)]
        self.sockets = [*self._publishers, *self._subscribers]
        for one in self.sockets:
            one.sendall(_CONNECT)
        for one in self._subscribers:
            one.sendall(b"SUB out.* 1\r\n")
        self._readers = {one: NatsReader() for one in self.sockets}
        self._heard = dict(zip(self._subscribers, self.heard, strict=True))
        self._waiting: list[list[bytes]] = [[] for _ in self._publishers]

    def publish(self, number: int, payload: bytes) -> None:
        """Take a message."""
        head = f"PUB in.{topic_name(number)} {len(payload)}\r\n".encode()
        self._waiting[number % PUBLISHERS] += (head, payload, b"\r\n")

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
            raise RuntimeError("the NATS server closed a connection")
        now_ns = time.monotonic_ns()
        reader, heard = self._readers[source], self._heard.get(source)
        if heard is None:
            reader.feed(data, [])
        else:
            heard.at_ns += [now_ns] * reader.feed(data, heard.heads)
        if reader.pings:
            source.sendall(b"PONG\r\n" * reader.pings)
            reader.pings = 0

    def tick(self) -> None:
        """Nothing here depends on time."""

    def unacknowledged(self) -> int:
        """Return 0: NATS core acknowledges nothing."""
        return 0

    def close(self) -> None:
        """Close all connections."""
        for one in self.sockets:
            one.close()

"""The load's connections to an MQTT broker: version 3.1.1, QoS 0, over plain sockets."""

from __future__ import annotations

import socket
import time

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.connections import READ_BYTES, connect
from nearcast.experiments.latency.workload import HEAD, PUBLISHERS, SUBSCRIBERS, topic_name

__all__ = ["MqttConnections", "MqttReader", "connect_packet", "publish_packet", "subscribe_packet"]

_PUBLISH = 0x30
_QUALITY_BITS = 0x06
_PACKET_ID_BYTES = 2


def connect_packet(client: str) -> bytes:
    """Return a CONNECT with a clean session and without keep-alive."""
    return _packet(0x10, _text("MQTT") + b"\x04\x02\x00\x00" + _text(client))


def subscribe_packet(pattern: str) -> bytes:
    """Return a SUBSCRIBE to one pattern at QoS 0."""
    return _packet(0x82, b"\x00\x01" + _text(pattern) + b"\x00")


def publish_packet(topic: str, payload: bytes) -> bytes:
    """Return a PUBLISH at QoS 0."""
    return _packet(_PUBLISH, _text(topic) + payload)


def _text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def _packet(first: int, body: bytes) -> bytes:
    head, left = bytearray((first,)), len(body)
    while left > 0x7F:
        head.append(left & 0x7F | 0x80)
        left >>= 7
    head.append(left)
    return bytes(head) + body


class MqttReader:
    """Finds publications in what a broker sends, however it is cut into reads."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, heads: list[bytes]) -> int:
        """Append the head of each complete publication; return how many there were."""
        data = self._rest + data if self._rest else data
        before, at, size = len(heads), 0, len(data)
        while at + 1 < size:
            first, length, body, shift = data[at], 0, at + 1, 0
            while body < size:
                part = data[body]
                length |= (part & 0x7F) << shift
                body, shift = body + 1, shift + 7
                if part < 0x80:
                    break
            else:
                break  # the length itself is cut
            if body + length > size:
                break
            if first & 0xF0 == _PUBLISH:
                begin = body + 2 + (data[body] << 8 | data[body + 1])
                if first & _QUALITY_BITS:
                    begin += _PACKET_ID_BYTES
                heads.append(data[begin : begin + HEAD.size])
            at = body + length
        self._rest = data[at:]
        return len(heads) - before


class MqttConnections:
    """Publishes to ``in/TOPIC``, hears ``out/+``."""

    def __init__(self, port: int) -> None:
        self.heard = [Heard() for _ in range(SUBSCRIBERS)]
        self._publishers = [connect(port) for _ in range(PUBLISHERS)]
        self._subscribers = [connect(port) for _ in range(SUBSCRIBERS)]
        self.sockets = [*self._publishers, *self._subscribers]
        for index, one in enumerate(self.sockets):
            one.sendall(connect_packet(f"load{index}"))
        for one in self._subscribers:
            one.sendall(subscribe_packet("out/+"))
        self._readers = {one: MqttReader() for one in self.sockets}
        self._heard = dict(zip(self._subscribers, self.heard, strict=True))
        self._waiting: list[list[bytes]] = [[] for _ in self._publishers]

    def publish(self, number: int, payload: bytes) -> None:
        """Take a message."""
        packet = publish_packet(f"in/{topic_name(number)}", payload)
        self._waiting[number % PUBLISHERS].append(packet)

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
            raise RuntimeError("the MQTT broker closed a connection")
        now_ns = time.monotonic_ns()
        heard = self._heard.get(source)
        if heard is not None:
            heard.at_ns += [now_ns] * self._readers[source].feed(data, heard.heads)

    def tick(self) -> None:
        """Nothing here depends on time."""

    def unacknowledged(self) -> int:
        """Return 0: QoS 0 acknowledges nothing."""
        return 0

    def close(self) -> None:
        """Close all connections."""
        for one in self.sockets:
            one.close()

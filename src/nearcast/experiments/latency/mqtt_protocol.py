"""What the load says to an MQTT broker: version 3.1.1, QoS 0."""

from __future__ import annotations

from nearcast.experiments.latency.workload import HEAD, topic_name

__all__ = ["MqttProtocol", "MqttReader", "connect_packet", "publish_packet", "subscribe_packet"]

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

    def take_answer(self) -> bytes:
        """Return nothing: there is no keep-alive."""
        return b""


class MqttProtocol:
    """Publishes to ``in/TOPIC``, hears ``out/+``."""

    name = "the MQTT broker"

    def connect(self, index: int) -> bytes:
        """Return a CONNECT with a name of its own."""
        return connect_packet(f"load{index}")

    def subscribe(self) -> bytes:
        """Return a SUBSCRIBE."""
        return subscribe_packet("out/+")

    def publish(self, number: int, payload: bytes) -> bytes:
        """Return a PUBLISH."""
        return publish_packet(f"in/{topic_name(number)}", payload)

    def make_reader(self) -> MqttReader:
        """Return a reader."""
        return MqttReader()

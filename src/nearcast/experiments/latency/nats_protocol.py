"""What the load says to a NATS server: its text protocol."""

from __future__ import annotations

from nearcast.experiments.latency.workload import HEAD, topic_name

__all__ = ["NatsProtocol", "NatsReader"]

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

    def take_answer(self) -> bytes:
        """Return a PONG for each PING."""
        pings, self.pings = self.pings, 0
        return b"PONG\r\n" * pings


class NatsProtocol:
    """Publishes to ``in.TOPIC``, hears ``out.*``."""

    name = "the NATS server"

    def connect(self, index: int) -> bytes:
        """Return a CONNECT; connections need no names."""
        return _CONNECT

    def subscribe(self) -> bytes:
        """Return a SUB."""
        return b"SUB out.* 1\r\n"

    def publish(self, number: int, payload: bytes) -> bytes:
        """Return a PUB."""
        head = f"PUB in.{topic_name(number)} {len(payload)}\r\n".encode()
        return head + payload + b"\r\n"

    def make_reader(self) -> NatsReader:
        """Return a reader."""
        return NatsReader()

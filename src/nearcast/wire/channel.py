"""One end of an established session: seals what goes out, opens what comes in, once each."""

from __future__ import annotations

from nearcast.wire.codec import Refused
from nearcast.wire.framing import HEADER_BYTES, SEALED_OVERHEAD, Header, Kind, write_header
from nearcast.wire.noise import CipherState, NoiseError
from nearcast.wire.replay_window import ReplayWindow

__all__ = ["Channel"]

_BODY = HEADER_BYTES + 8
_REPLAY_WINDOW = 1_024


class Channel:
    """Two ciphers, the own counter and the window over the other side's counters."""

    __slots__ = ("_counter_limit", "_header", "_receiver", "_sender", "counter", "window")

    def __init__(
        self,
        sender: CipherState,
        receiver: CipherState,
        *,
        peer_index: int,
        counter_limit: int,
    ) -> None:
        self._sender = sender
        self._receiver = receiver
        self._header = write_header(Header(Kind.SEALED, peer_index))
        self._counter_limit = counter_limit
        self.counter = 0
        """Counter of the next datagram."""
        self.window = ReplayWindow(_REPLAY_WINDOW)
        """Counters of the other side that arrived."""

    @property
    def is_worn(self) -> bool:
        """Whether a new handshake is due: the last hundredth of the counters is kept for it."""
        return self.counter > self._counter_limit - self._counter_limit // 100 - 1

    @property
    def is_spent(self) -> bool:
        """Whether no counter is left."""
        return self.counter >= self._counter_limit

    def seal(self, payload: bytes) -> bytes:
        """Return a datagram with this payload; the caller checks `is_spent` before."""
        assert not self.is_spent
        counter = self.counter
        self.counter += 1
        header = self._header
        return b"".join(
            (header, counter.to_bytes(8, "big"), self._sender.seal(counter, header, payload))
        )

    def open(self, datagram: bytes) -> bytes:
        """Return the payload; refuses what was not sealed by the peer or was opened before."""
        if len(datagram) < SEALED_OVERHEAD:
            raise Refused("too_short")
        counter = int.from_bytes(datagram[HEADER_BYTES:_BODY], "big")
        window = self.window
        if counter <= window.highest and not window.is_new(counter):
            raise Refused("replayed")
        try:
            payload = self._receiver.open(counter, datagram[:HEADER_BYTES], datagram[_BODY:])
        except NoiseError:
            raise Refused("seal") from None
        window.take(counter)
        return payload

"""One end of an established session: seals what goes out, opens what comes in, once each."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag

from nearcast.wire.codec import Refused
from nearcast.wire.framing import (
    HEADER_BYTES,
    SEALED_OVERHEAD,
    Header,
    Kind,
    write_header,
)
from nearcast.wire.noise import CipherState
from nearcast.wire.replay_window import ReplayWindow

__all__ = ["RECEIPT_BITS", "REPLAY_WINDOW", "Channel"]

_BODY = HEADER_BYTES + 8
RECEIPT_BITS = 64
"""Datagrams up to the highest one of which a receipt tells each."""
REPLAY_WINDOW = 1_024
"""Counters up to the highest one that are told apart; receipts speak of no others."""
_ZEROS = bytes(4)


class Channel:
    """Two ciphers, the own counter and the window over the other side's counters."""

    __slots__ = (
        "_counter_limit",
        "_decrypt",
        "_encrypt",
        "_header",
        "counter",
        "rekey_at",
        "window",
    )

    def __init__(
        self,
        sender: CipherState,
        receiver: CipherState,
        *,
        peer_index: int,
        counter_limit: int,
    ) -> None:
        self._encrypt = sender.encrypt
        self._decrypt = receiver.decrypt
        self._header = write_header(Header(Kind.SEALED, peer_index))
        self._counter_limit = counter_limit
        self.counter = 0
        """Counter of the next datagram."""
        self.rekey_at = counter_limit - counter_limit // 100 - 1
        """Beyond this counter a new handshake is due: the last hundredth is kept for it."""
        self.window = ReplayWindow(REPLAY_WINDOW)
        """Counters of the other side that arrived."""

    @property
    def rekey_due(self) -> bool:
        """Whether a new handshake is due."""
        return self.counter > self.rekey_at

    @property
    def is_exhausted(self) -> bool:
        """Whether no counter is left."""
        return self.counter >= self._counter_limit

    def seal(self, payload: bytes) -> bytes:
        """Return a datagram with this payload; the caller checks `is_exhausted` before."""
        return self.seal_as(self.take_counter(), payload)

    def seal_marked(self, mark: bytes, payload: bytes) -> bytes:
        """Return the same, beginning with another of the `SESSION_HEADERS`; the seal covers it."""
        header, nonce = mark + self._header[len(mark) :], self.take_counter().to_bytes(12, "big")
        return b"".join((header, nonce[4:], self._encrypt(nonce, payload, header)))

    def take_counter(self) -> int:
        """Return the counter of the next datagram, for `seal_as`; -1 when none is left."""
        counter = self.counter
        if counter >= self._counter_limit:
            return -1
        self.counter = counter + 1
        return counter

    def seal_as(self, counter: int, payload: bytes) -> bytes:
        """Return the datagram of a counter that was taken; never two payloads for one."""
        header, nonce = self._header, counter.to_bytes(12, "big")  # raises for -1
        return b"".join((header, nonce[4:], self._encrypt(nonce, payload, header)))

    def open(self, datagram: bytes) -> bytes:
        """Return the payload; refuses what was not sealed by the peer or was opened before."""
        if len(datagram) < SEALED_OVERHEAD:
            raise Refused("too_short")
        number = datagram[HEADER_BYTES:_BODY]
        counter = int.from_bytes(number, "big")
        window = self.window
        if counter <= window.highest and not window.is_new(counter):
            raise Refused("replayed")
        try:
            payload = self._decrypt(_ZEROS + number, datagram[_BODY:], datagram[:HEADER_BYTES])
        except InvalidTag:
            raise Refused("seal") from None
        window.take(counter)
        return payload

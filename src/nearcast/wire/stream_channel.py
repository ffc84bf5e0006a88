"""One sealed byte stream between two servers: Noise IK, then records with counters as nonces.

Each side sends one handshake message and then records, all with two bytes of length in front, as
the Noise framework recommends. A record holds one kind byte and its content, sealed: a message, a
piece of a larger one, a ping or a pong. The stream below is ordered, so the nonce of a record is
its place in the stream: what is changed, left out, repeated or reordered does not open, and the
stream is over.

A first handshake message can be recorded and replayed by anyone; therefore the answering side
counts as established only when the first record has come that the dialling side alone can seal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearcast.errors import WireError
from nearcast.wire.noise import (
    TAG_BYTES,
    CipherState,
    InitiatorHandshake,
    NoiseError,
    ResponderHandshake,
)

__all__ = ["StreamChannel", "StreamError", "StreamSettings", "UnknownKeyError"]

_PROLOGUE = b"nearcast mesh 1"
_LENGTH_BYTES = 2
_HANDSHAKE_LIMIT = 4_096
_PIECE_BYTES = 65_535 - TAG_BYTES - 1
_MESSAGE, _PIECE, _PING, _PONG = b"\0", b"\1", b"\2", b"\3"
_PING_BYTES = 8


class StreamError(WireError):
    """The other side broke the protocol, or is not who it should be: the stream is over."""


class UnknownKeyError(StreamError):
    """The dialling side proved a key that is not accepted here."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Limits of a stream."""

    message_bytes: int = 64 << 20
    """Larger messages are refused on both sides."""
    records: int = 1 << 32
    """Records per direction, far from the end of the counter and inside the limits of AES-GCM."""


class StreamChannel:
    """One side of a stream; made by `dial` or `answer`, driven by the owner of the socket.

    Call `begin` when the socket is connected. After each call `take_output` returns what is to be written.
    """

    __slots__ = (
        "_accepts",
        "_ephemeral",
        "_initiator",
        "_output",
        "_payload",
        "_pieces",
        "_ping_at",
        "_ping_token",
        "_receive_counter",
        "_receiving",
        "_rest",
        "_send_counter",
        "_sending",
        "_settings",
        "_static",
        "answers_pings",
        "is_established",
        "peer_key",
        "peer_payload",
        "round_trip_s",
    )

    def __init__(self, payload: bytes, settings: StreamSettings | None) -> None:
        self._initiator: InitiatorHandshake | None = None
        self._payload = payload
        self._settings = settings or StreamSettings()
        self._accepts: Callable[[bytes, bytes], bool] = lambda _key, _payload: True
        self._static = self._ephemeral = b""
        self._sending: CipherState | None = None
        self._receiving: CipherState | None = None
        self._send_counter = self._receive_counter = 0
        self._output: list[bytes] = []
        self._rest = b""
        self._pieces: list[bytes] = []
        self._ping_token, self._ping_at = b"", 0.0
        self.answers_pings = True
        """Set it to False while the other side does not read, so that nothing piles up."""
        self.peer_key = b""
        """The other side's static key; proved once the handshake is done."""
        self.peer_payload = b""
        """What the other side said in its handshake message."""
        self.is_established = False
        """Whether the other side has proved to be there now; messages may be sent."""
        self.round_trip_s: float | None = None
        """Of the last ping."""

    @classmethod
    def dial(
        cls,
        *,
        static: bytes,
        ephemeral: bytes,
        peer_key: bytes,
        payload: bytes = b"",
        settings: StreamSettings | None = None,
    ) -> StreamChannel:
        """Return the side that begins a stream to the owner of a key."""
        channel = cls(payload, settings)
        channel._static, channel._ephemeral, channel.peer_key = static, ephemeral, peer_key
        return channel

    @classmethod
    def answer(
        cls,
        *,
        static: bytes,
        ephemeral: bytes,
        accepts: Callable[[bytes, bytes], bool],
        payload: bytes = b"",
        settings: StreamSettings | None = None,
    ) -> StreamChannel:
        """Wait for a handshake; `accepts` gets the key that the other side proved, and its payload."""
        channel = cls(payload, settings)
        channel._accepts, channel._static, channel._ephemeral = accepts, static, ephemeral
        return channel

    def begin(self) -> None:
        """Put out the first handshake message, if this is the side that dials.

        Raises
        ------
        StreamError
            When the other side's key cannot be used.
        """
        if not self.peer_key:
            return
        initiator = InitiatorHandshake(
            static=self._static,
            ephemeral=self._ephemeral,
            responder_static=self.peer_key,
            prologue=_PROLOGUE,
        )
        try:
            self._put(initiator.write_first(self._payload))
        except NoiseError as error:
            raise StreamError(str(error)) from None
        self._initiator = initiator

    @property
    def is_exhausted(self) -> bool:
        """Whether a new stream must take the place of this one soon."""
        return max(self._send_counter, self._receive_counter) >= self._settings.records // 2

    def take_output(self) -> bytes:
        """Return the bytes to write now, in one piece."""
        output = self._output
        if not output:
            return b""
        self._output = []
        return output[0] if len(output) == 1 else b"".join(output)

    def send(self, message: bytes) -> None:
        """Seal a message; StreamError when it is too large or the stream is used up."""
        if len(message) > self._settings.message_bytes:
            raise StreamError(f"a message of {len(message)} bytes is too large")
        if len(message) <= _PIECE_BYTES:
            self._seal(_MESSAGE + message)
            return
        last = (len(message) - 1) // _PIECE_BYTES * _PIECE_BYTES
        for start in range(0, last, _PIECE_BYTES):
            self._seal(_PIECE + message[start : start + _PIECE_BYTES])
        self._seal(_MESSAGE + message[last:])

    def ping(self, now: float) -> None:
        """Send a keep-alive and ask for one; the round trip of one at a time is measured."""
        token = self._send_counter.to_bytes(_PING_BYTES, "big")
        if not self._ping_token:
            self._ping_token, self._ping_at = token, now
        self._seal(_PING + token)

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Take bytes as they come; return the messages that are complete.

        Raises
        ------
        StreamError
            When the stream is over; nothing may be done with it any more.
        """
        if self._rest:
            data = self._rest + data
        messages: list[bytes] = []
        at, size = 0, len(data)
        while size - at >= _LENGTH_BYTES:
            end = at + _LENGTH_BYTES + (data[at] << 8 | data[at + 1])
            if self._receiving is None and end - at > _HANDSHAKE_LIMIT:
                raise StreamError("not a handshake message")
            if end > size:
                break
            sealed = data[at + _LENGTH_BYTES : end]
            at = end
            if self._receiving is None:
                self._shake_hands(sealed)
            else:
                self._open(sealed, messages, now)
        self._rest = data[at:] if at else data
        return messages

    def _shake_hands(self, message: bytes) -> None:
        try:
            if self._initiator is not None:
                self.peer_payload = self._initiator.read_second(message)
                self._sending, self._receiving = self._initiator.split()
                self.is_established = True
                return
            # not before there is a message: opening a connection alone costs this side nothing
            responder = ResponderHandshake(static=self._static, prologue=_PROLOGUE)
            self.peer_payload = responder.read_first(message)
            self.peer_key = responder.initiator_static
            if not self._accepts(self.peer_key, self.peer_payload):
                raise UnknownKeyError("unknown key")
            self._put(responder.write_second(self._payload, ephemeral=self._ephemeral))
        except NoiseError as error:
            raise StreamError(f"handshake: {error}") from None
        self._sending, self._receiving = responder.split()
        self._static = self._ephemeral = b""

    def _open(self, sealed: bytes, messages: list[bytes], now: float) -> None:
        assert self._receiving is not None
        if self._receive_counter >= self._settings.records:
            raise StreamError("the stream is used up")
        try:
            plain = self._receiving.open(self._receive_counter, b"", sealed)
        except NoiseError as error:
            raise StreamError(f"record {self._receive_counter}: {error}") from None
        self._receive_counter += 1
        self.is_established = True
        kind = plain[:1]
        if kind == _MESSAGE and not self._pieces:
            messages.append(plain[1:])
        elif kind == _MESSAGE:
            messages.append(b"".join((*self._pieces, plain[1:])))
            self._pieces = []
        elif kind == _PIECE and len(plain) == 1 + _PIECE_BYTES:
            if len(self._pieces) * _PIECE_BYTES >= self._settings.message_bytes:
                raise StreamError("a message is too large")
            self._pieces.append(plain[1:])
        elif kind == _PING and len(plain) == 1 + _PING_BYTES:
            if self.answers_pings:
                self._seal(_PONG + plain[1:])
        elif kind == _PONG and len(plain) == 1 + _PING_BYTES:
            if plain[1:] == self._ping_token:
                self.round_trip_s = now - self._ping_at
            if plain[1:] >= self._ping_token:  # else the other side left it unanswered
                self._ping_token = b""
        else:
            raise StreamError("a record of an unknown kind")

    def _seal(self, plain: bytes) -> None:
        if self._sending is None or not self.is_established:
            raise StreamError("the stream is not established")
        if self._send_counter >= self._settings.records:
            raise StreamError("the stream is used up")
        self._put(self._sending.seal(self._send_counter, b"", plain))
        self._send_counter += 1

    def _put(self, content: bytes) -> None:
        self._output.append(len(content).to_bytes(_LENGTH_BYTES, "big") + content)

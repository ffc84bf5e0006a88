"""A client's side of the handshake: INITs with growing pauses until the home answers."""

from __future__ import annotations

from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.channel import Channel
from nearcast.wire.codec import Refused, decode, encode
from nearcast.wire.framing import (
    HEADER_BYTES,
    INIT_BYTES,
    MAC_BYTES,
    PROLOGUE,
    InitKeys,
    pad_init_payload,
)
from nearcast.wire.messages import Acknowledge, Init
from nearcast.wire.noise import InitiatorHandshake, NoiseError
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["ClientHandshake"]


class ClientHandshake:
    """The attempts to open one session with one home; each has fresh keys."""

    def __init__(
        self,
        static_key: bytes,
        home: Home,
        random_bytes: RandomBytes,
        settings: WireSettings,
        due: float,
    ) -> None:
        self.home = home
        self.began = due
        self.due = due
        """When the next INIT goes out."""
        self.tries = 0
        self.index = 0
        """The client's session index in the last INIT."""
        self._wait_s = 0.0
        self._static_key = static_key
        self._random_bytes = random_bytes
        self._settings = settings
        self._keys = InitKeys(home.server_key)
        self._cookie = b""
        self._cookie_until = 0.0
        self._noise: InitiatorHandshake | None = None
        self._mac1 = b""

    def write_init(self, init: Init, now: float) -> SendDatagram:
        """Return the next INIT and set when the one after it is due."""
        cookie = self._cookie if now < self._cookie_until else b""
        self._noise = InitiatorHandshake(
            static=self._static_key,
            ephemeral=self._random_bytes(32),
            responder_static=self.home.server_key,
            prologue=PROLOGUE + cookie,
        )
        self.index = int.from_bytes(self._random_bytes(4), "big")
        size = self._settings.datagram_limit if init.asks else INIT_BYTES
        first = self._noise.write_first(pad_init_payload(encode(init), size))
        data = self._keys.write_init(self.index, first, cookie, asks=init.asks > 0)
        self._mac1 = data[-2 * MAC_BYTES : -MAC_BYTES]
        settings = self._settings
        self._wait_s = next_wait_s(self._wait_s, settings.longest_retry_s, settings.first_retry_s)
        # Clients that lost the same server do not come back in step.
        self.due = now + self._wait_s * (1 + self._random_bytes(1)[0] / 512)
        self.tries += 1
        return SendDatagram(self.home.address, data)

    def read_cookie(self, data: bytes, now: float) -> None:
        """Take the cookie and send the next INIT at once.

        Waits begin anew: the server is there, and what it drops of a flood it drops by chance.
        """
        if self._noise is None:
            raise Refused("unexpected_kind")
        self._cookie = self._keys.read_cookie(data, self._mac1)
        self._cookie_until = now + self._settings.cookie_rotation_s
        self._noise = None  # one cookie per INIT: a repeated reply must not cause another
        self.due, self._wait_s = now, 0.0

    def read_acknowledge(self, data: bytes) -> tuple[Channel, Acknowledge]:
        """Return the channel of the session; a forgery leaves the attempt as it was."""
        noise = self._noise
        if noise is None:
            raise Refused("unexpected_kind")
        try:
            payload = noise.read_second(data[HEADER_BYTES:])
        except NoiseError:
            raise Refused("acknowledge_seal") from None
        messages = [message for message, _ in decode(payload)]
        if len(messages) != 1 or not isinstance(messages[0], Acknowledge):
            raise Refused("malformed")
        sender, receiver = noise.split()
        channel = Channel(
            sender,
            receiver,
            peer_index=messages[0].session,
            counter_limit=self._settings.counter_limit,
        )
        return channel, messages[0]

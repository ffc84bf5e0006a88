"""A server's side of the handshake: from an INIT to the two ciphers of a session, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearcast.errors import TrustError
from nearcast.trust.credentials import ClientCredential
from nearcast.wire.channel import Channel
from nearcast.wire.codec import Refused, decode, encode
from nearcast.wire.framing import (
    HEADER_BYTES,
    MAC_BYTES,
    PROLOGUE,
    Header,
    InitKeys,
    Kind,
    write_header,
)
from nearcast.wire.init_gate import CookieJar, SeenKeys, TokenBuckets, owner_of, prefix_of
from nearcast.wire.messages import Acknowledge, Init
from nearcast.wire.noise import KEY_BYTES, NoiseError, ResponderHandshake, public_key
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["Admission", "Admit", "CookieNeeded", "HandshakeGate"]

Admit = Callable[[bytes, bytes, float], ClientCredential]
"""Gets a signed credential, the static public key of who showed it, and the time; raises TrustError
when it does not count."""


_NOISE_START = HEADER_BYTES + 4


class CookieNeeded(Refused):
    """Too many INITs arrive: the sender proves first that it receives at its address, now."""

    def __init__(self, reply: bytes) -> None:
        super().__init__("cookie_needed")
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Admission:
    """A client that has proved its identity; only its first sealed datagram makes it count."""

    credential: ClientCredential
    init: Init
    handshake: ResponderHandshake
    sender: int
    """The client's session index."""
    has_cookie: bool
    """Whether it has just received at its address; nobody could replay the INIT then."""


class HandshakeGate:
    """Checks INITs, cheapest check first: nothing is stored before the seal is found right.

    Addresses can be forged, so that no number of INITs from anywhere locks a client out: beyond
    the budget of its prefix it is asked for a cookie. Who has one uses up its own budget only.
    """

    def __init__(
        self,
        static_key: bytes,
        admit: Admit,
        random_bytes: RandomBytes,
        settings: WireSettings,
    ) -> None:
        self._static_key = static_key
        self._admit = admit
        self._random_bytes = random_bytes
        self._settings = settings
        self._keys = InitKeys(public_key(static_key))
        self._cookies = CookieJar(random_bytes, settings.cookie_rotation_s)
        self._seen = SeenKeys(settings.seen_init_limit)
        self._all = TokenBuckets(settings.inits_per_s, settings.inits_per_s, 1)
        self._all_proved = TokenBuckets(settings.proved_inits_per_s, settings.proved_inits_per_s, 1)
        rate, burst, limit = (
            settings.prefix_inits_per_s,
            settings.prefix_burst,
            settings.prefix_limit,
        )
        self._cookie_answers = TokenBuckets(settings.cookies_per_s, settings.cookies_per_s, 1)
        self._by_prefix = TokenBuckets(rate, burst, limit)
        self._by_owner = TokenBuckets(rate, burst, limit)
        self._last_epoch = 0
        self.is_flooded = False
        """Whether more strangers come than are looked at: each INIT needs a cookie then."""

    def admit(self, data: bytes, address: Address, now: float) -> Admission:
        """Return who sent an INIT; raises Refused, or CookieNeeded with the reply to send."""
        self._keys.check_mac1(data)
        ephemeral = data[_NOISE_START : _NOISE_START + KEY_BYTES]
        if ephemeral in self._seen:
            raise Refused("init_replayed")
        cookie = self._cookies.cookie_in(data, address, now)
        if cookie:
            if not self._by_owner.take(owner_of(address), now):
                raise Refused("init_rate")
            if not self._all_proved.take("", now):
                raise Refused("init_load")
        elif cookie is None or not self._is_quiet(address, now):
            raise self.ask_for_cookie(data, address, now)
        # a cookie is part of what is sealed, so that no old INIT can be sent with a new one
        handshake = ResponderHandshake(static=self._static_key, prologue=PROLOGUE + cookie)
        try:
            payload = handshake.read_first(data[_NOISE_START : -2 * MAC_BYTES])
        except NoiseError:
            raise Refused("init_seal") from None
        messages = [message for message, _ in decode(payload)]
        if len(messages) != 1 or not isinstance(messages[0], Init):
            raise Refused("malformed")
        try:  # last: a signature costs more than all the rest
            credential = self._admit(messages[0].credential, handshake.initiator_static, now)
        except TrustError as error:
            raise Refused(error.reason) from None
        sender = int.from_bytes(data[HEADER_BYTES:_NOISE_START], "big")
        return Admission(credential, messages[0], handshake, sender, bool(cookie))

    def _is_quiet(self, address: Address, now: float) -> bool:
        """Tell whether so few INITs come, from here and in all, that no cookie is needed."""
        return (
            not self.is_flooded
            and self._by_prefix.take(prefix_of(address), now)
            and self._all.take("", now)
        )

    def ask_for_cookie(self, data: bytes, address: Address, now: float) -> Refused:
        """Return what to raise, with the cookie that the sender of an INIT needs."""
        if not self._cookie_answers.take("", now):
            return Refused("cookie_rate")
        cookie = self._cookies.cookie_for(address, now)
        return CookieNeeded(self._keys.write_cookie(data, cookie, self._random_bytes(12)))

    def welcome(self, admission: Admission, index: int, now: float) -> tuple[Channel, bytes]:
        """Return the channel of the new session and the ACKNOWLEDGE datagram."""
        acknowledge = Acknowledge(
            session=index,
            report_interval_s=self._settings.report_interval_s,
            epoch=admission.init.epoch or self._issue_epoch(int(now * 1e6)),
        )
        handshake = admission.handshake
        self._seen.add(handshake.initiator_ephemeral)
        reply = write_header(Header(Kind.ACKNOWLEDGE, admission.sender))
        reply += handshake.write_second(encode(acknowledge), ephemeral=self._random_bytes(32))
        sender, receiver = handshake.split()
        channel = Channel(
            sender,
            receiver,
            peer_index=admission.sender,
            counter_limit=self._settings.counter_limit,
        )
        return channel, reply

    def _issue_epoch(self, now_us: int) -> int:
        """Time makes epochs rise across restarts and servers as well."""
        self._last_epoch = max(self._last_epoch + 1, now_us)
        return self._last_epoch

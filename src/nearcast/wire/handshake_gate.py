"""A server's side of the handshake: from an INIT to the two ciphers of a session, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    read_header,
    write_header,
)
from nearcast.wire.init_gate import CookieJar, SeenKeys, TokenBuckets, owner_of, prefix_of
from nearcast.wire.messages import Acknowledge, Init, Revoked
from nearcast.wire.noise import KEY_BYTES, NoiseError, ResponderHandshake, public_key
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["Admission", "Admit", "CookieNeeded", "HandshakeGate"]

Admit = Callable[[bytes, bytes, float], ClientCredential]
"""Gets a signed credential, the static public key of who showed it, and the time; raises TrustError
when it does not count."""


_NOISE_START = HEADER_BYTES + 4
_ASKS = " asks"
_QUESTIONS_PER_S = 2_000.0
"""Answers to questions without a handshake: of 100,000 clients, each of which asks every minute."""
_BURST_S = 3.0
"""How many seconds' worth of sessions a client may open at once."""


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
        rate = settings.sessions_per_s
        self._by_client = TokenBuckets(rate, max(1.0, _BURST_S * rate), settings.session_limit)
        self._questions = TokenBuckets(_QUESTIONS_PER_S, _QUESTIONS_PER_S, 1)
        self._last_epoch = 0
        self.is_flooded = False
        """Whether more strangers come than are looked at: each INIT needs a cookie then."""
        self.revoked: Sequence[Revoked] = ()
        """What clients of other homes are told that ask."""

    def admit(self, data: bytes, address: Address, now: float) -> Admission:
        """Return who sent an INIT; raises Refused, or CookieNeeded with the reply to send."""
        self._keys.check_mac1(data)
        ephemeral = data[_NOISE_START : _NOISE_START + KEY_BYTES]
        if ephemeral in self._seen:
            raise Refused("init_replayed")
        header = read_header(data)
        # questions have a budget of their own: those of many clients behind one address keep no
        # newcomer out that comes from there
        purpose = _ASKS if header.receiver else ""
        cookie = self._cookies.cookie_in(data, address, now)
        if cookie:
            if not self._by_owner.take(owner_of(address) + purpose, now):
                raise Refused("init_rate")
            if not self._all_proved.take("", now):
                raise Refused("init_load")
        elif cookie is None or not self._is_quiet(prefix_of(address) + purpose, now):
            raise self.ask_for_cookie(data, address, now)
        # a cookie is part of what is sealed, so that no old INIT can be sent with a new one
        handshake = ResponderHandshake(static=self._static_key, prologue=PROLOGUE + cookie)
        first = data[_NOISE_START : -2 * MAC_BYTES]
        try:
            handshake.read_static(first)
            if not self._by_client.has(handshake.initiator_static.hex(), now):
                raise Refused("session_rate")
            payload = handshake.read_payload(first)
        except NoiseError:
            raise Refused("init_seal") from None
        messages = [message for message, _ in decode(payload)]
        if len(messages) != 1 or not isinstance(messages[0], Init):
            raise Refused("malformed")
        if bool(messages[0].asks) != bool(header.receiver):
            raise Refused("malformed")
        try:  # last: a signature costs more than all the rest
            credential = self._admit(messages[0].credential, handshake.initiator_static, now)
        except TrustError as error:
            raise Refused(error.reason) from None
        if cookie:
            self.count_opening(credential, now)
        sender = int.from_bytes(data[HEADER_BYTES:_NOISE_START], "big")
        return Admission(credential, messages[0], handshake, sender, bool(cookie))

    def count_opening(self, credential: ClientCredential, now: float) -> None:
        """Count a session against its client, once it is sure that no other has caused it.

        An INIT without a cookie may be a replayed one: it counts when its session is used.
        """
        self._by_client.take(credential.public_key.hex(), now)

    def _is_quiet(self, prefix: str, now: float) -> bool:
        """Tell whether so few INITs come, from there and in all, that no cookie is needed."""
        return not self.is_flooded and self._by_prefix.take(prefix, now) and self._all.take("", now)

    def ask_for_cookie(self, data: bytes, address: Address, now: float) -> Refused:
        """Return what to raise, with the cookie that the sender of an INIT needs."""
        if not self._cookie_answers.take("", now):
            return Refused("cookie_rate")
        cookie = self._cookies.cookie_for(address, now)
        return CookieNeeded(self._keys.write_cookie(data, cookie, self._random_bytes(12)))

    def welcome(self, admission: Admission, index: int, now: float) -> tuple[Channel, bytes, int]:
        """Return the channel of the new session, the ACKNOWLEDGE datagram and the client's epoch."""
        epoch = admission.init.epoch or self._issue_epoch(int(now * 1e6))
        reply = self._reply(admission, Acknowledge(index, self._settings.report_interval_s, epoch))
        sender, receiver = admission.handshake.split()
        channel = Channel(
            sender,
            receiver,
            peer_index=admission.sender,
            counter_limit=self._settings.counter_limit,
        )
        return channel, reply, epoch

    def opinion(self, admission: Admission) -> bytes:
        """Return the answer to a client that asks which servers were revoked: no session follows."""
        pages, asks = self.revoked, admission.init.asks
        page = pages[asks % len(pages)] if pages else Revoked(b"")
        return self._reply(admission, Acknowledge(0, 0.0, 0, page.document, page.signer))

    def answer(self, question: bytes, now: float) -> bytes:
        """Return the answer to a QUESTION: what anybody may know, signed, and nothing is kept."""
        sender, number = self._keys.read_question(question)
        if not self._questions.take("", now):
            raise Refused("question_rate")
        page = encode(self.revoked[number % len(self.revoked)]) if self.revoked else b""
        return write_header(Header(Kind.OPINION, sender)) + page

    def _reply(self, admission: Admission, acknowledge: Acknowledge) -> bytes:
        """Return the ACKNOWLEDGE datagram; its INIT is used up."""
        handshake = admission.handshake
        self._seen.add(handshake.initiator_ephemeral)
        header = write_header(Header(Kind.ACKNOWLEDGE, admission.sender))
        return header + handshake.write_second(
            encode(acknowledge), ephemeral=self._random_bytes(32)
        )

    def _issue_epoch(self, now_us: int) -> int:
        """Time makes epochs rise across restarts and servers as well."""
        self._last_epoch = max(self._last_epoch + 1, now_us)
        return self._last_epoch

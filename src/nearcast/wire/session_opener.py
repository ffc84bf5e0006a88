"""What a server answers to senders without a session: never more bytes than came from them."""

from __future__ import annotations

from typing import NoReturn

from nearcast.wire.actions import Datagram, SendDatagram
from nearcast.wire.codec import Refused
from nearcast.wire.framing import SEALED_OVERHEAD, Kind, read_header, write_unknown
from nearcast.wire.handshake_gate import CookieNeeded, HandshakeGate
from nearcast.wire.init_gate import TokenBuckets
from nearcast.wire.pace import Paces
from nearcast.wire.server_session import ServerSession
from nearcast.wire.session_table import SessionTable
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["SessionOpener"]

_UNKNOWNS_PER_S = 200.0
"""Answers that a session is not known: all clients of a server that restarted want one."""


class SessionOpener:
    """Opens sessions, and tells senders that theirs is not known.

    Parameters
    ----------
    outgoing
        Takes what is to be sent.
    """

    def __init__(
        self,
        handshakes: HandshakeGate,
        table: SessionTable,
        paces: Paces,
        random_bytes: RandomBytes,
        settings: WireSettings,
        outgoing: list[Datagram],
    ) -> None:
        self._handshakes, self._table, self._paces = handshakes, table, paces
        self._random_bytes, self._settings = random_bytes, settings
        self._unknowns = TokenBuckets(_UNKNOWNS_PER_S, _UNKNOWNS_PER_S, 1)
        self._outgoing = outgoing

    def on_stranger(self, data: bytes, address: Address, now: float) -> None:
        """Take a datagram that belongs to no session, or raise Refused."""
        kind = read_header(data).kind
        if kind is Kind.INIT:
            self.on_init(data, address, now)
        elif kind is Kind.QUESTION:
            self._answer(data, address, self._handshakes.answer(data, now))
        else:
            raise Refused("unexpected_kind")

    def on_init(self, data: bytes, address: Address, now: float) -> None:
        """Put a half-open session into the table, answer a question, or raise Refused."""
        try:
            admission = self._handshakes.admit(data, address, now)
            client = admission.credential.client
            if not admission.has_cookie and self._table.is_crowded(client):
                raise self._handshakes.ask_for_cookie(data, address, now)
        except CookieNeeded as needed:
            self._answer(data, address, needed.reply)
            raise
        if admission.init.asks:
            self._answer(data, address, self._handshakes.opinion(admission))
            return
        if not self._table.make_room(client):
            raise Refused("sessions_full")
        index = self._table.new_index(self._random_bytes)
        channel, reply, epoch = self._handshakes.welcome(admission, index, now)
        self._answer(data, address, reply)
        rights, default = admission.credential.rights, self._settings.messages_per_s
        self._table.add(
            ServerSession(
                admission.credential,
                index,
                channel,
                address,
                admission.init,
                now,
                self._settings,
                self._paces.begin(client, rights.messages_per_s or default, now),
                has_cookie=admission.has_cookie,
                epoch=epoch,
            )
        )

    def on_unknown(self, data: bytes, address: Address, now: float) -> NoReturn:
        """Tell the sender of a sealed datagram that it has no session here; raise Refused."""
        if len(data) >= SEALED_OVERHEAD and self._unknowns.take("", now):
            self._answer(data, address, write_unknown(data))
        raise Refused("unknown_session")

    def _answer(self, data: bytes, address: Address, reply: bytes) -> None:
        """Answer a datagram whose sender's address is not proved."""
        if len(reply) > len(data):
            raise Refused("answer_too_large")
        self._outgoing.append(SendDatagram(address, reply))

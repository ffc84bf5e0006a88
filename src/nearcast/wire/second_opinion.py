"""Asks servers other than the home, now and then, which servers were revoked.

A home that was revoked, or broken into, will not say so. A server that the client has not met is
asked in a handshake of one question and one answer, without a session, which proves that it is the
one: neither side has anything to keep. Later it is asked by a plain datagram, a hundredth of the
work: what it answers is signed, and who forges an answer can say no more than nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.client_context import ClientContext
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import Refused, decode
from nearcast.wire.framing import HEADER_BYTES, Header, InitKeys, Kind
from nearcast.wire.messages import Revoked
from nearcast.wire.noise import NoiseError
from nearcast.wire.ways import Ways

__all__ = ["SecondOpinion"]

_TRIES = 3
_PATIENCE = 4
"""First retries of a message that a plain question waits: nothing depends on a quick answer."""
_FIRST_PART = 0.1
"""Of the interval: a client that starts from an old file asks soon."""
_NEVER = float("inf")


class _Question:
    """A plain question to a server that the client has met."""

    def __init__(self, context: ClientContext, server: Home, page: int, due: float) -> None:
        self._context, self._server, self._page = context, server, page
        self.due, self.tries, self._wait_s = due, 0, 0.0
        self.index = int.from_bytes(context.random_bytes(4), "big")

    def send(self, now: float) -> None:
        """Ask, and set when to ask again."""
        settings = self._context.settings
        data = InitKeys(self._server.server_key).write_question(
            self.index, self._page, settings.datagram_limit
        )
        self._context.outgoing.append(SendDatagram(self._server.address, data))
        self.tries += 1
        first_s = _PATIENCE * settings.first_retry_s
        self._wait_s = next_wait_s(self._wait_s, settings.longest_retry_s, first_s)
        self.due = now + self._wait_s


class SecondOpinion:
    """One server at a time, each time another one."""

    def __init__(self, context: ClientContext, ways: Ways) -> None:
        self._context, self._ways = context, ways
        self._due = _NEVER
        self._turn = 0
        self._handshake: ClientHandshake | None = None
        self._question: _Question | None = None

    def begin(self, now: float) -> None:
        """Note a new session: another server is asked soon."""
        if self._context.servers.has_authority:
            self._due = min(self._due, now + self._wait_s(_FIRST_PART))

    def _wait_s(self, part: float = 1.0) -> float:
        # clients that came together must not ask together
        shift = self._context.random_bytes(1)[0] / 256
        return self._context.settings.second_opinion_s * part * (0.75 + shift / 2)

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to look at servers again."""
        return now >= self._due

    def poll(self, but: Collection[Home], now: float) -> None:
        """Ask if it is time; not those that the client has a session with: they tell by themselves."""
        if now >= self._due:
            self._due = now + self._wait_s()
            others = [server for server in self._ways.servers if server not in but]
            if others:
                self._turn += 1
                self._ask(others[self._turn % len(others)], now)
        question = self._question
        if question is not None and now >= question.due:
            if question.tries >= _TRIES:
                self._question = None
            else:
                question.send(now)
        handshake = self._handshake
        if handshake is None or now < handshake.due:
            return
        if handshake.tries >= _TRIES:
            self._handshake = None
            return
        try:
            init = self._context.make_init(visits=True, asks=self._turn)
            self._context.outgoing.append(handshake.write_init(init, now))
        except NoiseError:  # no public key of any server
            self._context.drops["unusable_home"] += 1
            self._handshake = None

    def _ask(self, server: Home, now: float) -> None:
        context = self._context
        self._handshake = self._question = None
        if self._ways.has_met(server):
            self._question = _Question(context, server, self._turn, now)
        else:
            self._handshake = ClientHandshake(
                context.static_key, server, context.random_bytes, context.settings, now
            )

    def waits_for(self, header: Header) -> bool:
        """Tell whether a datagram answers a question."""
        asked = self._question if header.kind is Kind.OPINION else self._handshake
        return asked is not None and asked.index == header.receiver

    def on_answer(self, header: Header, data: bytes, now: float) -> Revoked | None:
        """Take a cookie or the answer; return the page of the list that this has."""
        if header.kind is Kind.OPINION:
            self._question = None
            pages = [page for page, _ in decode(data[HEADER_BYTES:]) if isinstance(page, Revoked)]
            return pages[0] if pages else None
        handshake = self._handshake
        if handshake is None or header.kind not in (Kind.COOKIE, Kind.ACKNOWLEDGE):
            raise Refused("unexpected_kind")
        if header.kind is Kind.COOKIE:
            handshake.read_cookie(data, now)
            return None
        _, acknowledge = handshake.read_acknowledge(data)
        self._handshake = None
        self._ways.met(handshake.home)
        page = Revoked(acknowledge.revoked, acknowledge.signer)
        return page if page.document else None

    def stop(self) -> None:
        """Ask nobody any more."""
        self._handshake, self._question, self._due = None, None, _NEVER

    def next_due(self) -> float:
        """Return when there is something to do at the latest."""
        asked = (one.due for one in (self._handshake, self._question) if one is not None)
        return min(self._due, *asked, _NEVER)

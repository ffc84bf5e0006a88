"""Where clients are at home and topics have brokers, found on the ring while the manager is away.

Each server tells the one that is responsible for the hash of a name, and the one left of it on the
ring, that this client is at home here, or that it is a broker of this topic. Who looks for one asks
there. Nobody is believed: a claim says whom to ask for the orders that the manager signed for it
(`shown_orders`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nearcast.errors import WireError
from nearcast.overlay.overlay import Found
from nearcast.routing.index_mapping import hashed_index
from nearcast.routing.keys import CLOUD, INDEX_END, SUBSCRIBER, Key, target_of
from nearcast.server.overlay_part import SERVERS, OverlayPart
from nearcast.server.peers import Peers
from nearcast.server.ring_messages import (
    NAMES_AT_ONCE,
    DirectoryClaim,
    DirectoryClaims,
    DirectoryWanted,
)
from nearcast.wire.backoff import next_wait_s

__all__ = ["Directory", "topic_name"]

_TOPIC = "\x00topic/"
"""Before topics: no client can be called so."""

_REFRESH_S = 300.0
_FIRST_REFRESH_S = 10.0
"""After new orders, then longer: at the start rings that began apart may not be one yet."""
_STEP_S = 0.1
"""Between two lookups: claims of many clients must not fill the mesh."""
_KEEP_S = 2.5 * _REFRESH_S
_CLAIMS_PER_SERVER = 20_000
_CLAIMS_LIMIT = 200_000
_MOST_CLAIMERS = 16

OnClaims = Callable[[str, tuple[str, ...], float], None]
Located = Callable[[tuple[str, ...], int, float], None]
"""Takes servers, up to which hash the first is responsible, and the time."""


class _Place(NamedTuple):
    server: str
    low: int
    high: int
    """Up to it the server is responsible, from the hash on that was looked for."""


def topic_name(topic: str) -> str:
    """Return the name of a topic in the directory."""
    return _TOPIC + topic


def _hash(name: str) -> int:
    return hashed_index(name.encode("utf-8", "surrogatepass"))


class Directory:
    """The claims that this server makes, keeps and asks for."""

    def __init__(self, peers: Peers, overlay: OverlayPart) -> None:
        self._peers, self._overlay = peers, overlay
        self.on_claims: OnClaims = lambda client, servers, now: None
        """Hears of each client that was asked for which servers claim to be its home."""
        self.on_broker_claims: OnClaims = lambda topic, servers, now: None
        """Hears of each topic that was asked for which servers claim to be its brokers."""
        self._own: list[tuple[int, str]] = []
        """Hashes of the names that are claimed here, with them."""
        self._next = 0
        """What is claimed next of them."""
        self._is_looking = False
        self._refresh_s = _FIRST_REFRESH_S
        self._step_at = float("inf")
        self._claims: dict[str, dict[str, float]] = {}
        """By server that claims: names, and until when that counts."""
        self._asked: dict[str, None] = {}
        self.refused = 0
        """Claims for which there was no room."""
        self._limit = peers.tables.add("directory_claims", _CLAIMS_LIMIT, self.__len__)
        peers.on(DirectoryClaim, self._on_claim)
        peers.on(DirectoryWanted, self._on_wanted)
        peers.on(DirectoryClaims, self._on_answer)

    def __len__(self) -> int:
        """Return how many claims are kept."""
        return sum(map(len, self._claims.values()))

    def obey(self, clients: list[str], topics: list[str], now: float) -> None:
        """Take whose home and which topics' broker this is by new orders; others may have changed."""
        own = sorted((_hash(name), name) for name in (*clients, *map(topic_name, topics)))
        if own != self._own or self._step_at == float("inf"):
            self._own, self._next, self._refresh_s = own, 0, _FIRST_REFRESH_S
            self._step_at = now + self._overlay.chance.uniform(1.0, 4.0)
        for server in [one for one in self._claims if one not in self._peers.others]:
            if server != self._peers.server:
                del self._claims[server]

    def ask(self, name: str, now: float) -> None:
        """Look for a client or, by its `topic_name`, a topic.

        `on_claims` or `on_broker_claims` may be called once for each copy.
        """
        self._asked[name] = None

        def located(servers: tuple[str, ...], _high: int, now: float) -> None:
            for server in servers:
                if name in self._asked:
                    self._send(server, DirectoryWanted(name), now)

        self._locate(_hash(name), located, now)

    def forget(self, name: str) -> None:
        """Look for it no more."""
        self._asked.pop(name, None)

    def on_timer(self, now: float) -> None:
        """Claim some more names, if it is time."""
        if now < self._step_at:
            return
        self._step_at = now + _STEP_S
        if self._next >= len(self._own):
            self._next = 0
            self._step_at = now + self._refresh_s * self._overlay.chance.uniform(0.8, 1.2)
            self._refresh_s = next_wait_s(self._refresh_s, _REFRESH_S)
            self._expire(now)
        elif not self._is_looking:
            self._claim_next(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._step_at

    def _claim_next(self, now: float) -> None:
        """Claim all names whose hashes the same server is responsible for."""
        own, start = self._own, self._next
        self._is_looking = True

        def located(servers: tuple[str, ...], high: int, now: float) -> None:
            self._is_looking = False
            if own is not self._own:
                return
            end = start
            while end < len(own) and own[end][0] < high and end - start < NAMES_AT_ONCE:
                end += 1
            names = tuple(name for _, name in own[start:end])
            for server in servers:
                self._send(server, DirectoryClaim(names), now)
            self._next = max(end, start + 1)

        self._locate(own[start][0], located, now)

    def _locate(self, place: int, located: Located, now: float) -> None:
        """Find the server responsible for a hash, and the one left of it, for copies.

        That one is responsible when the first dies; the first is it for what a newcomer takes over.
        """

        def first_found(first: _Place | None, now: float) -> None:
            def second_found(second: _Place | None, now: float) -> None:
                found = [one.server for one in (first, second) if one is not None and one.server]
                located(tuple(dict.fromkeys(found)), high, now)

            high = place + 1 if first is None else first.high
            if first is None:
                second_found(None, now)
            else:
                self._look((first.low - 1) % INDEX_END, second_found, now)

        self._look(place, first_found, now)

    def _look(self, place: int, found: Callable[[_Place | None, float], None], now: float) -> None:
        """Find the key of a server that is responsible for a hash, before the first: the last."""

        def answered(answer: Found | None, now: float) -> None:
            if answer is None:
                found(None, now)
            elif _is_servers(answer.node.key):
                found(_place_of(answer, place), now)
            elif _is_servers(answer.right.key):
                last = target_of(SERVERS, CLOUD, INDEX_END - 1)
                high = answer.right.key.index
                self._overlay.lookup(
                    last, lambda again, now: found(_wrapped(again, high), now), now
                )
            else:
                found(None, now)

        self._overlay.lookup(target_of(SERVERS, CLOUD, place), answered, now)

    def _send(self, server: str, message: DirectoryClaim | DirectoryWanted, now: float) -> None:
        if server in self._peers.others:
            self._peers.send(server, message)
        elif server == self._peers.server:
            if isinstance(message, DirectoryClaim):
                self._on_claim(server, message, now)
            else:
                self._on_answer(server, self._answer(message.name, now), now)

    def _on_claim(self, server: str, message: DirectoryClaim, now: float) -> None:
        if server not in self._peers.others and server != self._peers.server:
            raise WireError("a claim of a server that orders do not name")
        claims = self._claims.setdefault(server, {})
        room = min(_CLAIMS_PER_SERVER - len(claims), self._limit - len(self))
        for name in message.names:
            if name not in claims:
                if room <= 0:
                    self.refused += 1
                    continue
                room -= 1
            claims[name] = now + _KEEP_S

    def _answer(self, name: str, now: float) -> DirectoryClaims:
        found = (one for one, claims in self._claims.items() if claims.get(name, 0.0) > now)
        return DirectoryClaims(name, tuple(sorted(found)[:_MOST_CLAIMERS]))

    def _on_wanted(self, server: str, message: DirectoryWanted, now: float) -> None:
        self._peers.send(server, self._answer(message.name, now))

    def _on_answer(self, _server: str, message: DirectoryClaims, now: float) -> None:
        if message.name not in self._asked or not message.servers:
            return
        if message.name.startswith(_TOPIC):
            topic = message.name.removeprefix(_TOPIC)
            self.on_broker_claims(topic, message.servers, now)
        else:
            self.on_claims(message.name, message.servers, now)

    def _expire(self, now: float) -> None:
        for server, claims in list(self._claims.items()):
            for name in [one for one, until in claims.items() if until <= now]:
                del claims[name]
            if not claims:
                del self._claims[server]


def _is_servers(key: Key) -> bool:
    return key[:3] == (SERVERS, CLOUD, SUBSCRIBER)


def _place_of(answer: Found, place: int) -> _Place:
    key, server, _ = answer.node
    after = answer.right.key
    high = after.index if _is_servers(after) and after.index > place else INDEX_END
    # one that holds a key elsewhere than at its own hash lies
    return _Place(server if key.index == hashed_index(server.encode()) else "", key.index, high)


def _wrapped(answer: Found | None, high: int) -> _Place | None:
    if answer is None or not _is_servers(answer.node.key):
        return None
    return _place_of(answer, INDEX_END - 1)._replace(high=high)

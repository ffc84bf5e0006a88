"""A server's peer of the overlay: one ring over all servers of the site, on the mesh.

A server begins a ring of its own at its first orders and looks for those of the others: each asks
another one by turns for the node left of an own one, so that all rings become one, after a cut as
well as at the start. Nobody has to be first. A restart is a new peer: its keys are other nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nearcast.errors import WireError
from nearcast.overlay.messages import Codec
from nearcast.overlay.overlay import (
    Action,
    Delivered,
    Found,
    KeyAbandoned,
    NotFound,
    Send,
)
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.peer import SuzakuPeer
from nearcast.routing.index_mapping import hashed_index
from nearcast.routing.keys import CLOUD, Key, fresh_unique_id, subscriber_key
from nearcast.server.peers import Peers
from nearcast.server.ring_messages import OVERLAY_BYTES, OverlayFrame

__all__ = ["SERVERS", "Answered", "Chance", "OverlayPart", "RingStatus"]

SERVERS = "\x00servers"
"""The topic, which no client can have, of the key that each server holds: its id's hash."""

_PARAMS = SuzakuParams(
    ping_s=5.0, finger_s=20.0, reply_s=2.0, lookup_s=4.0, repair_wait_s=0.5, suspicion_s=30.0
)
_AWAY_S = 1.5
"""A server that takes nothing for this long is sent nothing: it would pile up."""
_MERGE_S = 10.0
_MERGE_ALONE_S = 0.5
_KEY_LIMIT = 10_000
_LOOKUP_LIMIT = 4_096

Answered = Callable[[Found | None, float], None]
"""Takes what a lookup found, and the time; None: nobody answered."""

_codec = Codec(Key)


class Chance(Protocol):
    """Where random numbers come from; nobody else may be able to guess them."""

    def getrandbits(self, k: int, /) -> int:
        """Return a number below 2^k."""
        ...

    def randrange(self, low: int, high: int, /) -> int:
        """Return a number from low up to, not with, high."""
        ...

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number from a to b."""
        ...


@dataclass(frozen=True, slots=True)
class RingStatus:
    """What a server knows of the ring."""

    keys: int
    """Own ones that are on it."""
    left: str
    """The server before the first own key."""
    right: str
    """The server after the last own key."""
    servers_known: int
    """In its tables."""
    repairs: int
    """Left links that were wrong so far."""


class OverlayPart:
    """Keys, lookups and messages of this server's overlay peer."""

    def __init__(self, peers: Peers, chance: Chance, params: SuzakuParams = _PARAMS) -> None:
        self._peers, self.chance = peers, chance
        self._overlay = SuzakuPeer(peers.server, (), chance, params)
        self._others: frozenset[str] = frozenset()
        self._wanted: dict[Key, None] = {}
        self._lookups: dict[int, Answered] = {}
        tables = self.tables = peers.tables
        self._key_limit = tables.add("overlay_keys", _KEY_LIMIT, lambda: len(self._wanted))
        self._lookup_limit = tables.add(
            "overlay_lookups", _LOOKUP_LIMIT, lambda: len(self._lookups)
        )
        self._merge_at = float("inf")
        self._losses: Counter[str] = Counter()
        self.deliver: Callable[[Key, Any, str, float], None] = lambda key, payload, origin, now: (
            None
        )
        """Takes a payload that was routed to an own key: the key, it, its origin, the time."""
        peers.on(OverlayFrame, self._on_frame)

    # What other parts want

    def add_key(self, key: Key, now: float) -> bool:
        """Begin to hold a key until `remove_key`; False: there are too many."""
        if key not in self._wanted:
            if len(self._wanted) >= self._key_limit:
                self._losses["keys_refused"] += 1
                return False
            self._wanted[key] = None
            self._do(self._overlay.add_key(key, now), now)
        return True

    def remove_key(self, key: Key, now: float) -> None:
        """Hold a key no more."""
        if key in self._wanted:
            del self._wanted[key]
            self._do(self._overlay.remove_key(key, now), now)

    def lookup(self, target: Key, answered: Answered, now: float) -> None:
        """Ask for the node responsible for a key; `answered` is called once, maybe at once."""
        if len(self._lookups) >= self._lookup_limit:
            self._losses["lookups_refused"] += 1
            answered(None, now)
            return
        query, actions = self._overlay.lookup(target, now)
        self._lookups[query] = answered
        self._do(actions, now)

    def route(self, target: Key, payload: Any, now: float) -> None:
        """Bring a payload to the server responsible for a key; it may be lost."""
        self._do(self._overlay.route(target, payload, now), now)

    @property
    def is_alone(self) -> bool:
        """Whether all nodes next to own ones are own ones."""
        return all(
            node.ring.left.peer == node.ring.right.peer == self._peers.server
            for node in self._overlay.own.members()
        )

    def status(self) -> RingStatus | None:
        """Return what is known of the ring; None before the first key is on it."""
        members = sorted(self._overlay.own.members(), key=lambda node: node.me)
        if not members:
            return None
        known = {one.peer for node in members for one in node.fingers.known()}
        return RingStatus(
            len(members),
            members[0].ring.left.peer,
            members[-1].ring.right.peer,
            len(known - {self._peers.server}),
            self._overlay.counters["repairs"],
        )

    def losses(self) -> dict[str, int]:
        """Return what the overlay dropped, refused or gave up, by reason."""
        counted = self._overlay.counters + self._losses
        return {name: count for name, count in counted.items() if name != "repairs"}

    # Events

    def obey(self, now: float) -> None:
        """Take the servers that orders name, which the peers know already."""
        others = frozenset(self._peers.others)
        if not self._wanted:
            place, unique_id = (
                hashed_index(self._peers.server.encode()),
                fresh_unique_id(self.chance),
            )
            self.add_key(subscriber_key(SERVERS, CLOUD, place, unique_id), now)
        for server in sorted(self._others - others):
            self._do(self._overlay.on_peer_gone(server, now), now)
        self._others = others
        self._merge_at = now if others else float("inf")

    def on_restarted(self, server: str, now: float) -> None:
        """Note that a server began anew, without its nodes."""
        self._do(self._overlay.on_peer_gone(server, now), now)
        if self.is_alone:
            self._merge_at = now

    def on_timer(self, now: float) -> None:
        """Do what has become due."""
        if self._overlay.next_wakeup() <= now:
            self._do(self._overlay.on_timer(now), now)
        if self._merge_at <= now:
            self._merge(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(self._merge_at, self._overlay.next_wakeup())

    def _merge(self, now: float) -> None:
        wait_s = _MERGE_ALONE_S if self.is_alone else _MERGE_S
        self._merge_at = now + wait_s * self.chance.uniform(0.8, 1.2)
        there = [one for one in self._peers.others if not self._is_away(one, now)]
        if there:
            other = there[self.chance.randrange(0, len(there))]
            self._do(self._overlay.merge_through(other, now), now)

    def _is_away(self, server: str, now: float) -> bool:
        return self._peers.is_away(server, now, _AWAY_S)

    def _on_frame(self, server: str, message: OverlayFrame, now: float) -> None:
        if server not in self._peers.others:
            raise WireError("an overlay message of a server that orders do not name")
        decoded = _codec.decode(message.data)
        self._do(self._overlay.on_message(server, decoded, now), now)

    def _do(self, actions: list[Action], now: float) -> None:
        for action in actions:
            match action:
                case Send(server, message):
                    self._send(server, message, now)
                case Found(query):
                    self._answer(query, action, now)
                case NotFound(query):
                    self._answer(query, None, now)
                case Delivered(node, _, payload, origin):
                    self.deliver(node.key, payload, origin, now)
                case KeyAbandoned(key) if key in self._wanted:
                    self._do(self._overlay.add_key(key, now), now)

    def _send(self, server: str, message: Any, now: float) -> None:
        # nodes may name any server; a channel is for those of the orders only
        if server not in self._peers.others or self._is_away(server, now):
            self._losses["not_sent"] += 1
            return
        data = _codec.encode(message)
        if len(data) > OVERLAY_BYTES:
            self._losses["too_large"] += 1
            return
        self._peers.send(server, OverlayFrame(data))

    def _answer(self, query: int, found: Found | None, now: float) -> None:
        answered = self._lookups.pop(query, None)
        if answered is not None:
            answered(found, now)

"""A Suzaku overlay in virtual time, and a look at the whole of it that no peer has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from random import Random
from typing import Any

from nearcast.overlay.nodes import Node
from nearcast.overlay.overlay import Found, KeyAdded
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.peer import SuzakuPeer
from nearcast.overlay.ring import Status
from nearcast.testing.overlay_world import OverlayWorld
from nearcast.testing.simulated_network import Network

__all__ = ["QUIET", "OverlayRing"]

QUIET = SuzakuParams(ping_s=inf, finger_s=inf)
"""Without periodic work, so that a world settles."""


class OverlayRing:
    """Peers of one overlay; each new one joins through a random other.

    Parameters
    ----------
    params
        Of all peers.
    shares_chance
        Whether all peers take their random numbers from one generator, which saves memory.
    """

    def __init__(
        self,
        params: SuzakuParams = QUIET,
        network: Network | None = None,
        seed: int = 1,
        shares_chance: bool = False,
    ) -> None:
        self.params = params
        self.world = OverlayWorld(network, seed)
        self.random = Random(seed)
        self.peers: dict[str, SuzakuPeer] = {}
        self._shared = Random(seed) if shares_chance else None
        self._names: list[str] = []

    def start_peer(self, name: str, contacts: Sequence[str] | None = None) -> SuzakuPeer:
        """Switch a peer on; it has no keys yet. Without contacts: a random one."""
        if contacts is None:
            contacts = [self.random.choice(self._names)] if self._names else []
        rng = self._shared or Random(self.random.getrandbits(64))
        peer = SuzakuPeer(name, contacts, rng, self.params)
        self.peers[name] = peer
        self._names.append(name)
        self.world.add_peer(peer)
        return peer

    def add(self, key: Any, peer: SuzakuPeer | None = None) -> SuzakuPeer:
        """Begin to add a key, at a new peer named after it if none is given."""
        peer = peer or self.start_peer(f"p{key}")
        self.world.act(peer.peer, peer.add_key(key, self.world.now))
        return peer

    def fill(self, keys: Iterable[Any]) -> None:
        """Add keys one after the other, each at a peer of its own; needs quiet peers."""
        for key in keys:
            self.add(key)
            self.world.settle()
            self.world.events.clear()

    def remove(self, key: Any) -> None:
        """Begin to remove a key."""
        for peer in self.peers.values():
            self.world.act(peer.peer, peer.remove_key(key, self.world.now))

    def crash(self, name: str) -> None:
        """Switch a peer off for good."""
        del self.peers[name]
        self._names.remove(name)
        self.world.crash(name)

    def lookup(self, peer: SuzakuPeer, target: Any) -> Found | None:
        """Return the answer of a lookup; None if there is none. Needs quiet peers."""
        query, actions = peer.lookup(target, self.world.now)
        self.world.act(peer.peer, actions)
        self.world.settle()
        found = [event for _, _, event in self.world.events if isinstance(event, Found)]
        self.world.events.clear()
        return next((event for event in found if event.query == query), None)

    def added(self) -> list[Any]:
        """Return the keys that were added, as events of the world say."""
        return [event.node.key for _, _, event in self.world.events if isinstance(event, KeyAdded)]

    def all_nodes(self) -> Iterator[OverlayNode]:
        """Yield the nodes of all peers, also those that are joining."""
        for peer in self.peers.values():
            yield from peer.own.by_node.values()

    def walk(self, start: Node | None = None) -> list[Node]:
        """Return the ring, by the right pointers from a node that is on it.

        Raises
        ------
        AssertionError
            If they do not form one sorted cycle that holds each node that is on the ring.
        """
        nodes = {node.me: node for node in self.all_nodes()}
        inside = sorted(me for me, node in nodes.items() if node.ring.status is Status.IN)
        if not inside:
            return []
        first = start or inside[0]
        met = [first]
        while (right := nodes[met[-1]].ring.right) != first:
            assert right in nodes, f"{met[-1]} points at {right}, which is gone"
            met.append(right)
            assert len(met) <= len(nodes), f"no cycle: {met}"
        turn = met.index(min(met))
        met = met[turn:] + met[:turn]
        assert met == sorted(met), f"not sorted: {met}"
        assert set(inside) <= set(met), f"left out: {set(inside) - set(met)}"
        return met

    def check_settled(self) -> list[Node]:
        """Return the ring; AssertionError unless both pointers of each link agree."""
        nodes = {node.me: node for node in self.all_nodes()}
        ring = self.walk()
        assert sorted(nodes) == ring
        for me, node in nodes.items():
            right = nodes[node.ring.right].ring
            assert right.left == me, f"{right.me} has {right.left} on its left, not {me}"
            assert right.lseq == node.ring.rseq, f"numbers of {me} - {right.me} differ"
        return ring

"""A small world of LASR peers on the exact overlay, in virtual time, and its owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from nearcast.overlay.overlay import Overlay
from nearcast.routing.index_mapping import IndexMapping
from nearcast.routing.keys import CLOUD, INDEX_END, SUBSCRIBER, NetPath, fallback_target, target_of
from nearcast.routing.lasr import LasrRouter
from nearcast.routing.net_share import DelegationState
from nearcast.routing.overlay_node import LasrNode, Outcome
from nearcast.routing.route_actions import Deliver, Offloaded, Reject, ReplicaEnded, RouteAction
from nearcast.routing.router import RoutingSettings
from nearcast.testing.routed_world import RoutedWorld
from overlay.oracle import Directory, OracleOverlay

TOPIC = "faces"
EDGE: NetPath = ("jp", "ishikawa")
PROBES = [INDEX_END * step // 24 for step in range(24)]
SETTINGS = RoutingSettings(reply_s=1.0, renew_s=2.0, idle_s=4.0)


class LasrWorld:
    """Peers by name; messages take random times, and those of one pair stay in order."""

    def __init__(
        self,
        seed: int,
        settings: RoutingSettings = SETTINGS,
        mappings: Mapping[str, IndexMapping] | None = None,
        make_overlay: Callable[[str, Random], Overlay] | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.directory = Directory()
        self.world = RoutedWorld(lambda _from, _to, _message: self.rng.uniform(0.001, 0.05))
        self.nodes: dict[str, LasrNode] = {}
        self.published = 0
        self._settings, self._mappings = settings, mappings
        self._make_overlay = make_overlay or (lambda name, _: OracleOverlay(name, self.directory))

    def add(self, name: str, net: NetPath = CLOUD) -> LasrRouter:
        router = LasrRouter(
            name, net, Random(self.rng.getrandbits(32)), self._settings, self._mappings
        )
        overlay = self._make_overlay(name, Random(self.rng.getrandbits(32)))
        self.nodes[name] = LasrNode(router, overlay)
        self.world.add(name, self.nodes[name])
        return router

    def do(self, name: str, actions: list[RouteAction]) -> None:
        self.world.do(name, self.nodes[name].do(actions, self.world.now))

    def publish(self, name: str, body: bytes | None = None) -> None:
        self.published += 1
        body = str(self.published).encode() if body is None else body
        self.do(name, self.nodes[name].router.publish(TOPIC, body, self.world.now))

    def offload(
        self,
        name: str,
        split_at: int | None = None,
        replica: str | None = None,
        net: NetPath = EDGE,
    ) -> None:
        router = self.nodes[name].router
        actions = router.offload(TOPIC, net, self.world.now, split_at=split_at, replica=replica)
        self.do(name, actions)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def crash(self, name: str) -> None:
        """End a peer; the overlay has repaired itself at once."""
        self.world.crash(name)
        del self.nodes[name]
        self.directory.nodes[:] = [node for node in self.directory.nodes if node.peer != name]

    def told(self, kind: type[Outcome]) -> list[tuple[str, Outcome]]:
        return [(name, told) for _, name, told in self.world.outcomes if isinstance(told, kind)]

    def delivered(self) -> list[tuple[str, bytes]]:
        return [
            (name, told.data.body) for name, told in self.told(Deliver) if isinstance(told, Deliver)
        ]

    def owner(self, index: int, net: NetPath = EDGE) -> str:
        """Return the peer that a publisher of a net reaches with an index."""
        found = self.directory.responsible(target_of(TOPIC, net, index))
        if found.key[:3] == (TOPIC, net, SUBSCRIBER):
            share = self.nodes[found.peer].router.held(TOPIC, net)
            if any(low <= index < high for low, high in share):
                return found.peer
        found = self.directory.responsible(fallback_target(TOPIC, index))
        assert found.key[:3] == (TOPIC, CLOUD, SUBSCRIBER)
        return found.peer

    def subscriber_keys(self, net: NetPath = EDGE) -> list[tuple[int, str]]:
        """Return index and peer of a net's subscriber keys, in their order."""
        return [
            (node.key.index, node.peer)
            for node in self.directory.nodes
            if node.key[:3] == (TOPIC, net, SUBSCRIBER)
        ]


def check_owners(world: LasrWorld) -> None:
    """Each index has one owner, which knows it; others think so only while a step is under way."""
    under_way = sum(
        one.state is not DelegationState.GIVEN
        for node in world.nodes.values()
        for _, _, one in node.router._delegations()
    )
    for index in PROBES:
        owner = world.owner(index)
        holders = {
            name
            for name, node in world.nodes.items()
            if any(low <= index < high for low, high in node.router.held(TOPIC, EDGE))
        }
        assert owner in holders
        assert len(holders) <= 1 + under_way


__all__ = [
    "EDGE",
    "PROBES",
    "SETTINGS",
    "TOPIC",
    "LasrWorld",
    "Offloaded",
    "Reject",
    "ReplicaEnded",
    "check_owners",
]

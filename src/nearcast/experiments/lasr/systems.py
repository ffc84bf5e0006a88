"""LASR on Suzaku, and the master-slave baseline, each set up on the testbed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from nearcast.experiments.lasr.testbed import EDGE_NETS, MASTER, REPLICA, TARGET, TOPIC, JoseTestbed
from nearcast.overlay.overlay import Delivered, Send
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.peer import SuzakuPeer
from nearcast.routing.index_mapping import ShuffleMapping
from nearcast.routing.lasr import LasrRouter
from nearcast.routing.master_slave import Master, MasterSlaveRouter
from nearcast.routing.overlay_node import LasrNode, Outcome, RouterFrame
from nearcast.routing.route_actions import RouteAction, SendPeer
from nearcast.testing.routed_world import RoutedWorld

__all__ = ["LasrSystem", "MasterSlaveSystem", "System"]

_PARAMS = SuzakuParams(reply_s=0.5, trace=True)
"""An acknowledgement is late after some 35 round trips to the cloud, not only after seconds."""


class System(Protocol):
    """A routing system under test."""

    world: RoutedWorld

    def publish(self, broker: str, body: bytes) -> None:
        """Send a device's frame."""

    def offload(self) -> None:
        """Let d1 give half of its range to the replica."""

    def lost(self) -> int:
        """Return how many messages were given up."""


class LasrSystem:
    """A LASR router and a Suzaku peer on every host."""

    def __init__(
        self, testbed: JoseTestbed, seed: int, on_route: Callable[[str, Delivered], None]
    ) -> None:
        self.world = RoutedWorld(testbed.delay_s, testbed.service_s)
        self._rng, self._testbed = Random(seed), testbed
        self._nodes: dict[str, LasrNode] = {}
        self._on_route = on_route
        count = 2 * testbed.brokers
        for number in range(count):
            self._add(testbed.component(number), None)
        self._add(REPLICA, None)
        for number in range(count):
            self._add(testbed.broker(number), ShuffleMapping(*testbed.range_of(number)))
        for number in range(count):
            # One after the other, as a site starts.
            self.world.at(testbed.setup_s * number / 2 / count, self._subscribe, number)
        self.world.at(testbed.setup_s * 0.75, self._offer_room)

    def publish(self, broker: str, body: bytes) -> None:
        """Send a device's frame."""
        self._do(broker, self._nodes[broker].router.publish(TOPIC, body, self.world.now))

    def offload(self) -> None:
        """Search an underloaded node of the first net, and split."""
        router = self._nodes[TARGET].router
        self._do(TARGET, router.offload(TOPIC, EDGE_NETS[0], self.world.now))

    def lost(self) -> int:
        """Return how many messages were given up."""
        counts = [node.router.counts for node in self._nodes.values()]
        return sum(one.undeliverable + one.backlog_full for one in counts)

    def _add(self, name: str, mapping: ShuffleMapping | None) -> None:
        mappings = {TOPIC: mapping} if mapping is not None else {}
        rng = Random(self._rng.getrandbits(64))
        router = LasrRouter(name, self._testbed.net_of(name), rng, mappings=mappings)
        contacts = [TARGET] if name != TARGET else []
        overlay = SuzakuPeer(name, contacts, Random(self._rng.getrandbits(64)), _PARAMS)
        node = self._nodes[name] = LasrNode(router, overlay)
        node.on_route = lambda route: self._on_route(name, route)
        self.world.add(name, node)

    def _subscribe(self, number: int) -> None:
        name = self._testbed.component(number)
        low, high = self._testbed.range_of(number)
        self._do(name, self._nodes[name].router.subscribe(TOPIC, low, high, self.world.now))

    def _offer_room(self) -> None:
        self._do(REPLICA, self._nodes[REPLICA].router.offer_room())

    def _do(self, name: str, actions: list[RouteAction]) -> None:
        self.world.do(name, self._nodes[name].do(actions, self.world.now))


class MasterSlaveSystem:
    """A slave on every host, and one master in the cloud."""

    def __init__(self, testbed: JoseTestbed, seed: int) -> None:
        self.world = RoutedWorld(testbed.delay_s, testbed.service_s)
        self._testbed, rng = testbed, Random(seed)
        self._slaves: dict[str, _Slave] = {}
        self.world.add(MASTER, _MasterHost())
        count = 2 * testbed.brokers
        brokers = {testbed.broker(number): number for number in range(count)}
        components = [testbed.component(number) for number in range(count)]
        for name in (*components, REPLICA, *brokers):
            mappings = {}
            if name in brokers:
                mappings[TOPIC] = ShuffleMapping(*testbed.range_of(brokers[name]))
            slave = _Slave(name, testbed, Random(rng.getrandbits(64)), mappings)
            self._slaves[name] = slave
            self.world.add(name, slave)
        for number, name in enumerate(components):
            low, high = testbed.range_of(number)
            self._do(name, self._slaves[name].router.subscribe(TOPIC, low, high, 0.0))

    def publish(self, broker: str, body: bytes) -> None:
        """Send a device's frame."""
        self._do(broker, self._slaves[broker].router.publish(TOPIC, body, self.world.now))

    def offload(self) -> None:
        """Tell the master that the replica takes the lower half."""
        low, _ = self._testbed.range_of(0)
        router = self._slaves[TARGET].router
        self._do(TARGET, router.hand_over(TOPIC, low, self._testbed.split_at, REPLICA))

    def lost(self) -> int:
        """Return how many messages were given up."""
        counts = [slave.router.counts for slave in self._slaves.values()]
        return sum(one.undeliverable + one.backlog_full for one in counts)

    def _do(self, name: str, actions: list[RouteAction]) -> None:
        self.world.do(name, _carried_out(actions))


class _MasterHost:
    def __init__(self) -> None:
        self._master = Master()

    def on_message(self, sender: str, message: Any, now: float) -> list[Send | Outcome]:
        return _carried_out(self._master.on_message(sender, message.message))

    def on_timer(self, now: float) -> list[Send | Outcome]:
        return []

    def next_wakeup(self) -> float:
        return float("inf")


class _Slave:
    def __init__(
        self, name: str, testbed: JoseTestbed, rng: Random, mappings: dict[str, ShuffleMapping]
    ) -> None:
        net = testbed.net_of(name)
        self.router = MasterSlaveRouter(name, net, MASTER, rng, mappings=mappings)
        self._next_s = 0.0

    def on_message(self, sender: str, message: Any, now: float) -> list[Send | Outcome]:
        return _carried_out(self.router.on_message(sender, message.message, now))

    def on_timer(self, now: float) -> list[Send | Outcome]:
        self._next_s = now + 0.5
        return _carried_out(self.router.on_timer(now))

    def next_wakeup(self) -> float:
        return self._next_s


def _carried_out(actions: list[RouteAction]) -> list[Send | Outcome]:
    out: list[Send | Outcome] = []
    for action in actions:
        if isinstance(action, SendPeer):
            out.append(Send(action.peer, RouterFrame(action.message)))
        else:
            out.append(action)  # type: ignore[arg-type]  # a slave has no overlay to act on
    return out

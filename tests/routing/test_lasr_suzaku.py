"""The same on the Suzaku overlay: messages stay in their net and none is lost."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.overlay.overlay import Delivered
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.peer import SuzakuPeer
from nearcast.overlay.ring import Status
from nearcast.routing.keys import CLOUD, INDEX_END
from nearcast.routing.route_messages import Data
from routing.lasr_world import EDGE, TOPIC, LasrWorld, Offloaded, check_owners

KYOTO = ("jp", "kyoto")
PARAMS = SuzakuParams(reply_s=0.3, lookup_s=1.0, ping_s=1.0, repair_wait_s=0.2, trace=True)


def _peer(name: str, rng: Random) -> SuzakuPeer:
    return SuzakuPeer(name, [] if name == "d0" else ["d0"], rng, PARAMS)


class _Routes:
    """What was routed: each way, and those that left the net's part of the topic."""

    def __init__(self) -> None:
        self.ways = 0
        self.strayed: list[Delivered] = []

    def note(self, route: Delivered) -> None:
        data = route.payload
        if isinstance(data, Data) and not data.is_fallback and data.net != CLOUD:
            self.ways += 1
            nodes = (*route.path, route.node)
            if any(node.key[:2] != (data.topic, data.net) for node in nodes):
                self.strayed.append(route)


def suzaku_world(seed: int, components: int = 2) -> tuple[LasrWorld, _Routes]:
    world, routes = LasrWorld(seed, make_overlay=_peer), _Routes()
    for number in range(components):
        router = world.add(f"d{number}")
        low, high = (INDEX_END * (number + step) // components for step in (0, 1))
        world.do(router.peer, router.subscribe(TOPIC, low, high, 0.0))
        world.run(0.5)
    for number, net in enumerate((EDGE, EDGE, KYOTO)):
        world.add(f"b{number}", net)
    for name in ("r1", "r2"):
        world.do(name, world.add(name, EDGE).offer_room())
    for node in world.nodes.values():
        node.on_route = routes.note
    return world, routes


def _look_at_owners(world: LasrWorld) -> None:
    """See that each index has one owner by the right pointers of the ring as it is now."""
    nodes = {
        node.me: node
        for one in world.nodes.values()
        if isinstance(one.overlay, SuzakuPeer)
        for node in one.overlay.own.by_node.values()
    }
    first = next(me for me, node in nodes.items() if node.ring.status is Status.IN)
    met = [first]
    while (right := nodes[met[-1]].ring.right) != first:
        met.append(right)
    world.directory.nodes = sorted(met)
    check_owners(world)


def _arrived_once(world: LasrWorld) -> bool:
    arrived = Counter(body for _, body in world.delivered())
    return set(arrived.values()) <= {1} and len(arrived) == world.published


def _publish(world: LasrWorld, rounds: int) -> None:
    for _ in range(rounds):
        for name in ("b0", "b1", "b2"):
            world.publish(name)
        world.run(0.02)


@pytest.mark.overlay_property(9)
@pytest.mark.overlay_property(10)
@pytest.mark.overlay_property(11)
@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_splits_and_merges_lose_nothing_and_ways_stay_in_the_net(seed: int) -> None:
    world, routes = suzaku_world(seed)
    _publish(world, 10)
    world.run(2)
    world.world.after_event = lambda: _look_at_owners(world)
    world.offload("d0")
    _publish(world, 20)
    world.run(2)
    world.offload("d0")
    _publish(world, 20)
    world.run(2)
    assert [one.replica for _, one in world.told(Offloaded) if isinstance(one, Offloaded)] in (
        ["r1", "r2"],
        ["r2", "r1"],
    )
    for name in ("r1", "r2"):
        world.do(name, world.nodes[name].router.scale_in(TOPIC, world.world.now))
        _publish(world, 20)
        world.run(2)
        assert world.nodes[name].router.held(TOPIC, EDGE) == []
    assert _arrived_once(world)
    assert world.nodes["d0"].router.held(TOPIC, EDGE) == [(0, INDEX_END // 2)]
    assert routes.ways > 200
    assert routes.strayed == []


@pytest.mark.overlay_property(10)
@pytest.mark.parametrize("event", range(5, 200, 15))
@pytest.mark.parametrize("is_merge", [False, True])
def test_a_replica_that_crashes_at_any_step_is_replaced_by_its_original(
    event: int, is_merge: bool
) -> None:
    world, _ = suzaku_world(event)
    _publish(world, 10)
    world.run(2)
    if is_merge:
        world.offload("d0", None, "r1")
        world.run(2)
    left = [event]

    def crash() -> None:
        left[0] -= 1
        if left[0] == 0:
            world.world.crash("r1")

    world.world.after_event = crash
    if is_merge:
        world.do("r1", world.nodes["r1"].router.scale_in(TOPIC, world.world.now))
    else:
        world.offload("d0", None, "r1")
    world.run(20)
    assert left[0] < 0
    world.world.after_event = lambda: None
    before = len(world.delivered())
    _publish(world, 10)
    world.run(3)
    assert len(world.delivered()) - before == 30
    assert world.nodes["d0"].router.held(TOPIC, EDGE) == [(0, INDEX_END // 2)]

"""Rings that began apart, or were cut for long, become one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from nearcast.overlay.overlay import Found
from nearcast.overlay.params import SuzakuParams
from nearcast.testing.overlay_ring import OverlayRing
from nearcast.testing.simulated_network import Network

PARAMS = SuzakuParams(ping_s=5.0, finger_s=20.0, reply_s=2.0, suspicion_s=30.0)
PERIOD_S = 5.0


def _make(seed: int, sizes: Sequence[int]) -> OverlayRing:
    """Return rings of so many peers, each with one key."""
    rng = Random(seed)
    ring = OverlayRing(PARAMS, Network(delay_s=lambda _a, _b: 0.01, jitter_s=0.005), seed)
    for number, size in enumerate(sizes):
        first: list[str] = []
        for member in range(size):
            peer = ring.start_peer(f"r{number}.{member}", first)
            first = first or [peer.peer]
            ring.add(rng.randrange(10**6), peer)
            ring.world.run(0.5)
    return ring


def _merge(ring: OverlayRing, names: Sequence[str] | None = None) -> None:
    """Let each peer ask a random other one again and again."""
    world, rng = ring.world, ring.random

    def ask(name: str) -> None:
        others = [one for one in ring.peers if one != name]
        world.act(name, ring.peers[name].merge_through(rng.choice(others), world.now))
        world.at(world.now + PERIOD_S * rng.uniform(0.8, 1.2), ask, name)

    for name in names or list(ring.peers):
        world.at(world.now + rng.uniform(0, PERIOD_S), ask, name)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (1,) * 12, (10, 10), (12, 1), (20, 5, 5)])
@pytest.mark.parametrize("seed", range(5))
def test_rings_that_began_apart_become_one(seed: int, sizes: tuple[int, ...]) -> None:
    ring = _make(seed, sizes)
    with pytest.raises(AssertionError):
        ring.check_settled()
    _merge(ring)
    ring.world.run(60.0)
    assert len(ring.check_settled()) == sum(sizes)


def test_without_asking_they_stay_apart() -> None:
    ring = _make(1, (3, 3))
    ring.world.run(120.0)
    with pytest.raises(AssertionError):
        ring.check_settled()


def test_one_that_was_alone_builds_its_tables_at_once() -> None:
    ring = _make(3, (32, 1))
    late = ring.peers["r1.0"]
    _merge(ring, ["r1.0"])
    ring.world.run(PERIOD_S + 1.0)
    ring.check_settled()
    (node,) = late.own.members()
    assert len(node.fingers.forward) >= 3
    query, actions = late.lookup(10**6, ring.world.now)
    ring.world.act(late.peer, actions)
    ring.world.run(1.0)
    found = [one for _, _, one in ring.world.events if isinstance(one, Found)]
    assert [one.query for one in found] == [query]
    assert found[0].hops <= 6


def test_a_link_to_a_peer_that_restarted_is_repaired_at_once() -> None:
    ring = _make(4, (6,))
    gone = ring.check_settled()[2].peer
    ring.crash(gone)
    ring.start_peer(gone, [])
    for name, peer in list(ring.peers.items()):
        ring.world.act(name, peer.on_peer_gone(gone, ring.world.now))
    ring.world.run(0.5)
    assert len(ring.check_settled()) == 5

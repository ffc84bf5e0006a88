"""Skip Graph and Chord# give the answers of a sorted list through the same Protocol."""

from __future__ import annotations

from math import ceil, log2
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.overlay.chord_sharp import ChordSharp
from nearcast.overlay.overlay import Delivered, Found, RangeEnded
from nearcast.overlay.simulated import Graph, SimulatedOverlay
from nearcast.overlay.skip_graph import SkipGraph
from nearcast.testing.overlay_world import OverlayWorld


def _world(graph: Graph, keys: list[int]) -> OverlayWorld:
    world = OverlayWorld()
    for key in keys:
        peer = SimulatedOverlay(f"p{key}", graph)
        world.add_peer(peer)
        peer.add_key(key, 0.0)
    return world


def _found(world: OverlayWorld, start: int, target: int) -> Found:
    world.events.clear()
    peer = world.peers[f"p{start}"]
    world.act(peer.peer, peer.lookup(target, world.now)[1])
    world.settle()
    ((_, _, found),) = world.events
    assert isinstance(found, Found)
    return found


@settings(max_examples=30, deadline=None)
@given(
    keys=st.lists(st.integers(0, 200), min_size=1, max_size=30, unique=True),
    seed=st.integers(0, 1000),
    is_skip_graph=st.booleans(),
)
def test_lookups_find_what_a_sorted_list_does(
    keys: list[int], seed: int, is_skip_graph: bool
) -> None:
    rng = Random(seed)
    world = _world(SkipGraph(rng) if is_skip_graph else ChordSharp(), keys)
    gone = keys[1 : len(keys) // 3]
    for key in gone:
        world.peers[f"p{key}"].remove_key(key, 0.0)
    left = [key for key in keys if key not in gone]
    for _ in range(10):
        target = rng.randrange(-5, 205)
        expected = max((key for key in left if key <= target), default=max(left))
        assert _found(world, rng.choice(left), target).node.key == expected
        peer = world.peers[f"p{left[0]}"]
        world.events.clear()
        world.act(peer.peer, peer.route(target, "x", world.now))
        world.settle()
        ((_, _, delivered),) = world.events
        assert isinstance(delivered, Delivered)
        assert delivered.node.key == expected


def test_a_skip_graph_stays_between_source_and_target_and_is_short() -> None:
    keys = list(range(256))
    world = _world(SkipGraph(Random(4)), Random(5).sample(keys, len(keys)))
    hops = [_found(world, start, 255 - start).hops for start in range(0, 256, 5)]
    assert max(hops) <= 3 * log2(len(keys))


@pytest.mark.parametrize("count", [2, 3, 17, 64, 100])
def test_chord_sharp_converges_to_one_hop_per_level(count: int) -> None:
    graph = ChordSharp()
    world = _world(graph, list(range(count)))
    graph.converge()
    hops = [_found(world, 0, target).hops for target in range(count)]
    assert max(hops) <= ceil(log2(count))


def test_a_multicast_reaches_the_range() -> None:
    world = _world(SkipGraph(Random(1)), [10, 20, 30, 40])
    _, actions = world.peers["p10"].multicast(20, 40, "all", 0.0)
    world.act("p10", actions)
    world.settle()
    assert sorted(e.node.key for _, _, e in world.events if isinstance(e, Delivered)) == [20, 30]
    (ended,) = [e for _, _, e in world.events if isinstance(e, RangeEnded)]
    assert [node.key for node in ended.nodes] == [20, 30]

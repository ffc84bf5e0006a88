"""Tables: exact when converged, short ways before that, and no wrong answer at any time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from math import ceil, inf, log2
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.overlay.overlay import Delivered, Found, Rule
from nearcast.overlay.params import SuzakuParams
from nearcast.testing.overlay_ring import QUIET, OverlayRing

SWEEPING = SuzakuParams(ping_s=inf, finger_s=1.0)
TRACING = SuzakuParams(ping_s=inf, finger_s=inf, trace=True)


def _bound(count: int) -> int:
    return max(1, ceil(log2(count)) - 1)


def _converged(keys: list[Any]) -> OverlayRing:
    ring = OverlayRing(SWEEPING)
    for key in keys:
        ring.add(key)
        ring.world.run(0.5)
    levels = ceil(log2(max(2, len(keys))))
    ring.world.run(max(5, levels) * (levels + 1))  # a sweep of all levels for each of them
    return ring


def _find(ring: OverlayRing, start: Any, target: Any) -> Found:
    peer = ring.peers[f"p{start}"]
    query, actions = peer.lookup(target, ring.world.now)
    ring.world.act(peer.peer, actions)
    ring.world.run(1.0)
    (found,) = [e for _, _, e in ring.world.events if isinstance(e, Found) and e.query == query]
    return found


@pytest.mark.overlay_property(6)
@settings(max_examples=12, deadline=None)
@given(
    keys=st.one_of(
        st.lists(st.integers(0, 10**9), min_size=2, max_size=48, unique=True),
        st.lists(st.text(max_size=3), min_size=2, max_size=24, unique=True),
    ),
    seed=st.integers(0, 100),
)
def test_converged_fingers_are_exactly_powers_of_two_away(keys: list[Any], seed: int) -> None:
    _check_converged(_converged(keys), seed, lookups=10)


def _check_converged(ring: OverlayRing, seed: int, lookups: int) -> list[int]:
    """See that fingers are exact and ways within the bound; return how long some ways are."""
    order = ring.check_settled()
    count = len(order)
    rank = {node: index for index, node in enumerate(order)}
    levels = ceil(log2(count))
    for node in ring.all_nodes():
        for forward, sign in ((True, 1), (False, -1)):
            table = [node.fingers.get(forward, level) for level in range(levels + 2)]
            expected = [order[(rank[node.me] + sign * 2**level) % count] for level in range(levels)]
            assert [entry and entry.nodes[0] for entry in table] == [*expected, None, None]
    rng = Random(seed)
    hops = []
    for _ in range(lookups):
        start, target = rng.choice(order), rng.choice(order)
        found = _find(ring, start.key, target.key)
        assert found.node == target
        assert found.hops <= _bound(count)
        hops.append(found.hops)
    return hops


@pytest.mark.overlay_property(6)
@pytest.mark.parametrize("count", [16, 33, 100, 257, pytest.param(600, marks=pytest.mark.slow)])
def test_converged_ways_are_half_a_logarithm_long_on_average(count: int) -> None:
    keys = [int(1.02**step * 10) + step for step in range(count)]  # ever further apart
    ring = _converged(Random(count).sample(keys, count))
    hops = _check_converged(ring, count, lookups=300)
    assert abs(sum(hops) / len(hops) - (log2(count) - 1) / 2) <= 0.5


ORDERS: dict[str, Callable[[int], list[int]]] = {
    "random": lambda count: Random(3).sample(range(count), count),
    "ascending": lambda count: list(range(count)),
    "descending": lambda count: list(range(count))[::-1],
    "dense run": lambda count: [
        *Random(3).sample(range(0, count * 50, 100), count // 2),
        *range(count * 20 + 1, count * 20 + 1 + count // 2),
    ],
    "adversarial": lambda count: [
        key for first in range(0, count, 3) for key in (first + 2, first + 1, first + 3)
    ][:count],
}


@pytest.mark.overlay_property(7)
@pytest.mark.parametrize("count", [300, pytest.param(4096, marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ORDERS)
def test_right_after_inserts_ways_are_short_and_right(order: str, count: int) -> None:
    keys = list(dict.fromkeys(ORDERS[order](count)))
    ring = OverlayRing()
    ring.fill(keys)
    _check_ways(ring, sorted(keys), 2 * log2(count) + 1)


@pytest.mark.overlay_property(7)
@pytest.mark.parametrize("order", ORDERS)
def test_sweeps_make_the_tables_exact_after_any_order_of_inserts(order: str) -> None:
    keys = list(dict.fromkeys(ORDERS[order](70)))
    _check_converged(_converged(keys), seed=1, lookups=100)


def _check_ways(
    ring: OverlayRing,
    keys: list[int],
    most_hops: float,
    lookups: int = 400,
    within_s: float = QUIET.reply_s,  # so no hop was waited for in vain
) -> None:
    rng = Random(7)
    for _ in range(lookups):
        peer = ring.peers[f"p{rng.choice(keys)}"]
        target = rng.randrange(keys[0], keys[-1] + 1)
        began_s = ring.world.now
        query, actions = peer.lookup(target, began_s)
        ring.world.act(peer.peer, actions)
        ring.world.settle()
        ((answered_s, found),) = [
            (at_s, event)
            for at_s, _, event in ring.world.events
            if isinstance(event, Found) and event.query == query
        ]
        ring.world.events.clear()
        assert found.node.key == keys[bisect_right(keys, target) - 1]
        assert found.hops <= most_hops
        assert answered_s - began_s < within_s


@pytest.mark.overlay_property(8)
def test_after_a_quarter_left_no_way_is_wrong_or_long() -> None:
    count = 256
    ring = OverlayRing()
    ring.fill(Random(5).sample(range(count), count))
    for key in range(64, 128):
        ring.remove(key)
    ring.world.settle()
    assert len(ring.check_settled()) == count - 64
    dangling = {
        (node.me.key, gone.key)
        for node in ring.all_nodes()
        for gone in node.fingers.usable()
        if 64 <= gone.key < 128
    }
    # a reverse pointer is missed where a table changed between the two steps that tell it
    assert len(dangling) <= 3
    _check_ways(ring, [*range(64), *range(128, 256)], 2 * log2(count) + 1)
    assert not any(peer.counters["routes_given_up"] for peer in ring.peers.values())


@pytest.mark.overlay_property(8)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(8, 80))
def test_after_any_quarter_left_no_way_is_wrong_or_lost(seed: int, count: int) -> None:
    first, gone = seed % (count - count // 4), count // 4
    ring = OverlayRing(seed=seed)
    ring.fill(Random(seed).sample(range(count), count))
    for key in range(first, first + gone):
        ring.remove(key)
    ring.world.settle()
    left = [key for key in range(count) if not first <= key < first + gone]
    assert [node.key for node in ring.check_settled()] == left
    _check_ways(ring, left, 2 * log2(count) + 1, 40)
    assert not any(peer.counters["routes_given_up"] for peer in ring.peers.values())


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), reverse_limit=st.sampled_from([64, 1024]))
def test_no_finger_stays_at_peers_that_left_together(seed: int, reverse_limit: int) -> None:
    # each leaver's left neighbour leaves too, and comes to be pointed at by more than it remembers
    ring = OverlayRing(replace(QUIET, reverse_limit=reverse_limit), seed=seed)
    ring.fill(Random(seed).sample(range(192), 192))
    gone = range(48, 96)
    for key in gone:
        ring.remove(key)
    ring.world.settle()
    for key in gone:
        ring.crash(f"p{key}")
    ring.check_settled()
    fingers = [
        entry.nodes[0].key
        for node in ring.all_nodes()
        for table in (node.fingers.forward, node.fingers.backward)
        for entry in table
        if entry is not None
    ]
    assert sum(key in gone for key in fingers) <= len(fingers) // 200
    _check_ways(ring, [*range(48), *range(96, 192)], 2 * log2(192) + 1, 100, inf)


@pytest.mark.overlay_property(7)
@settings(max_examples=8, deadline=None)
@given(order=st.sampled_from(sorted(ORDERS)), count=st.integers(8, 120), seed=st.integers(0, 99))
def test_right_after_any_number_of_inserts_ways_are_short(
    order: str, count: int, seed: int
) -> None:
    keys = list(dict.fromkeys(ORDERS[order](count)))
    ring = OverlayRing(seed=seed)
    ring.fill(keys)
    _check_ways(ring, sorted(keys), 2 * log2(count) + 1, 60)


@pytest.mark.overlay_property(9)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rule=st.sampled_from(Rule))
def test_every_hop_lies_between_source_and_target(seed: int, rule: Rule) -> None:
    rng = Random(seed)
    keys = rng.sample(range(1000), 40)
    ring = OverlayRing(TRACING, seed=seed)
    ring.fill(keys)
    for key in keys[:10]:
        ring.remove(key)
        ring.world.settle()
    left = sorted(keys[10:])
    for _ in range(30):
        start, target = rng.choice(left), rng.randrange(left[0], 1000)
        if rule is Rule.RING and target < start:
            continue
        peer = ring.peers[f"p{start}"]
        ring.world.events.clear()
        ring.world.act(peer.peer, peer.route(target, "x", ring.world.now, rule))
        ring.world.settle()
        (delivered,) = [e for _, _, e in ring.world.events if isinstance(e, Delivered)]
        assert delivered.node.key == max(key for key in left if key <= target)
        assert len(delivered.path) == delivered.hops
        low, high = sorted((start, target))
        for node in delivered.path:
            assert min(low, delivered.node.key) <= node.key <= high


def test_a_peer_uses_the_tables_of_all_its_keys() -> None:
    ring = OverlayRing()
    ring.fill(range(0, 1000, 10))
    peer = ring.peers["p0"]
    for key in range(5, 1000, 100):
        ring.add(key, peer)
        ring.world.settle()
    ring.check_settled()
    for target in range(1, 1000, 100):
        found = ring.lookup(peer, target + 9)
        assert found is not None
        assert found.node.key == (target + 9) // 10 * 10
        assert found.hops <= 3


@pytest.mark.overlay_property(14)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(20, 60))
def test_traffic_of_an_idle_ring_and_of_a_join_is_small(seed: int, count: int) -> None:
    params = SuzakuParams(ping_s=10.0, finger_s=60.0)
    ring = OverlayRing(params, seed=seed)
    for key in range(count):
        ring.add(key)
        ring.world.run(0.5)
    ring.world.run(1200.0)
    before = ring.world.messages
    ring.world.run(600.0)
    per_key = (ring.world.messages - before) / count
    assert per_key <= 1.15 * (2 * 600 / params.ping_s + 2 * 600 / params.finger_s)
    quiet = OverlayRing(QUIET, seed=seed)
    quiet.fill(Random(seed).sample(range(count), count))
    before = quiet.world.messages
    quiet.fill([count / 2 + 0.5])
    lookup_and_links = 2 * 8 + 1 + 3 + 2 * 5
    assert quiet.world.messages - before <= lookup_and_links + 6 * 7

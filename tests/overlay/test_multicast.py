"""A range reaches each of its keys once, whatever comes and goes meanwhile."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.overlay.messages import Piece, RangeAnswer, RangeSend
from nearcast.overlay.multicast import uncovered
from nearcast.overlay.nodes import Place, before_key
from nearcast.overlay.overlay import Delivered, RangeEnded, Send
from nearcast.overlay.params import SuzakuParams
from nearcast.testing.overlay_ring import QUIET, OverlayRing
from nearcast.testing.simulated_network import Network


def _ask(ring: OverlayRing, key: int, low: int, high: int) -> None:
    peer = ring.peers[f"p{key}"]
    _, actions = peer.multicast(low, high, "all", ring.world.now)
    ring.world.act(peer.peer, actions)


def _outcome(ring: OverlayRing) -> tuple[RangeEnded, Counter[int]]:
    (ended,) = [e for _, _, e in ring.world.events if isinstance(e, RangeEnded)]
    reached = Counter(e.node.key for _, _, e in ring.world.events if isinstance(e, Delivered))
    return ended, reached


@pytest.mark.overlay_property(13)
@pytest.mark.parametrize("keys", [[50], [10, 90], [10, 50, 90], list(range(0, 100, 3))])
@pytest.mark.parametrize(("low", "high"), [(0, 100), (40, 60), (50, 51), (51, 90), (95, 99)])
def test_each_key_of_a_range_is_reached_once(keys: list[int], low: int, high: int) -> None:
    for start in keys[:5]:
        ring = OverlayRing()
        ring.fill(keys)
        _ask(ring, start, low, high)
        ring.world.settle()
        ended, reached = _outcome(ring)
        expected = [key for key in keys if low <= key < high]
        assert ended.complete
        assert [node.key for node in ended.nodes] == expected
        assert reached == Counter(expected)


@pytest.mark.overlay_property(13)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_keys_that_stay_are_reached_while_others_come_and_go(seed: int) -> None:
    rng = Random(seed)
    ring = OverlayRing(QUIET, Network(jitter_s=0.02), seed)
    keys = rng.sample(range(0, 1000, 2), 30)
    ring.fill(keys)
    leaving = keys[1:10]
    joining = rng.sample(range(1, 1000, 2), 10)
    for key in leaving:
        ring.world.at(ring.world.now + rng.uniform(0, 0.1), ring.remove, key)
    for key in joining:
        ring.world.at(ring.world.now + rng.uniform(0, 0.1), ring.add, key)
    ring.world.at(ring.world.now + 0.05, _ask, ring, keys[0], 200, 800)
    ring.world.settle()
    ended, reached = _outcome(ring)
    staying = {key for key in keys if key not in leaving and 200 <= key < 800}
    assert ended.complete
    assert staying <= set(reached)
    assert set(reached) <= {key for key in (*keys, *joining) if 200 <= key < 800}
    assert set(reached.values()) <= {1}


def test_a_crash_on_the_way_leaves_no_gap_once_it_is_repaired() -> None:
    params = SuzakuParams(ping_s=1.0, finger_s=5.0, reply_s=0.3)
    ring = OverlayRing(params)
    for key in range(0, 200, 10):
        ring.add(key)
        ring.world.run(1.0)
    for key in (50, 60, 120):
        ring.crash(f"p{key}")
    ring.world.events.clear()
    _ask(ring, 0, 30, 150)
    ring.world.run(40.0)
    ended, reached = _outcome(ring)
    assert ended.complete
    assert sorted(reached) == [30, 40, 70, 80, 90, 100, 110, 130, 140]
    assert set(reached.values()) == {1}


def test_a_piece_that_arrives_twice_is_delivered_once_and_answered_twice() -> None:
    ring = OverlayRing()
    ring.fill([10, 20])
    peer = ring.peers["p20"]
    (node,) = peer.nodes
    piece: Piece[int] = Piece(node, node, before_key(30))
    actions = [
        action
        for hop in (1, 2)
        for action in peer.on_message(
            "p10", RangeSend(hop, "p10", 5, 20, (piece,), "all", 1), ring.world.now
        )
    ]
    assert len([action for action in actions if isinstance(action, Delivered)]) == 1
    answers = [a for a in actions if isinstance(a, Send) and isinstance(a.message, RangeAnswer)]
    assert len(answers) == 2


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=10))
def test_what_is_left_of_a_range_is_what_no_part_covers(parts: list[tuple[int, int]]) -> None:
    gaps: list[tuple[Place, Place]] = [(before_key(0), before_key(20))]
    covered: set[int] = set()
    for low, high in parts:
        if low < high:
            gaps = uncovered(gaps, before_key(low), before_key(high))
            covered |= set(range(low, high))
    points = {point for low, high in gaps for point in range(low[0], high[0])}
    assert points == set(range(20)) - covered

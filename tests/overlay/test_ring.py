"""The ring stays one sorted cycle while nodes come and go."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.overlay.messages import LinkChange, SetL, SetR
from nearcast.overlay.nodes import LinkSeq, Node, NodeOf
from nearcast.overlay.overlay import Delivered, Found, KeyAbandoned
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.ring import Status
from nearcast.testing.overlay_ring import QUIET, OverlayRing
from overlay.ring_watch import Watch, quiet_ring, responsible, uneven


@pytest.mark.overlay_property(1)
@pytest.mark.overlay_property(2)
@pytest.mark.overlay_property(5)
@settings(max_examples=60, deadline=None)
@example(seed=1126, count=11)  # a finger at a node that had left brought messages back to it
@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
def test_joins_leaves_and_lookups_at_once_see_one_sorted_ring(seed: int, count: int) -> None:
    rng = Random(seed)
    ring = OverlayRing(QUIET, uneven(seed), seed)
    ring.fill([500])
    watch = Watch(ring)
    ring.world.on_step = watch.look
    keys = rng.sample(range(1, 1000, 2), count)

    def ask() -> None:
        peer = rng.choice(list(ring.peers.values()))
        target = rng.randrange(1000)
        query, actions = peer.lookup(target, ring.world.now)
        watch.open[peer.peer, query] = (target, {responsible(ring.walk(), target)})
        ring.world.act(peer.peer, actions)

    for key in keys:
        ring.world.at(rng.uniform(0, 0.3), ring.add, key)
        if rng.random() < 0.6:
            ring.world.at(rng.uniform(0.2, 0.8), ring.remove, key)
    for _ in range(20):
        ring.world.at(rng.uniform(0, 1.0), ask)
    ring.world.settle()
    ring.check_settled()
    answered = 0
    for _, peer, event in ring.world.events:
        assert not isinstance(event, KeyAbandoned)
        if isinstance(event, Found):
            _, possible = watch.open[peer, event.query]
            assert event.node in possible
            answered += 1
    assert answered == 20


def test_a_hundred_keys_that_join_one_node_at_once_are_all_taken() -> None:
    ring = OverlayRing(QUIET, uneven(1))
    ring.fill([0])
    for key in range(1, 101):
        ring.add(key)
    ring.world.settle()
    assert len(ring.check_settled()) == 101


def test_an_acknowledgement_that_is_lost_does_not_insert_twice() -> None:
    ring = quiet_ring(10, 30)
    ring.world.network.one_way_cuts.add(("p10", "p20"))
    ring.world.network.one_way_cuts.add(("p30", "p20"))
    contact = ring.start_peer("p20")
    ring.world.network.one_way_cuts.clear()
    ring.add(20, contact)
    while _status(ring, 20) is not Status.INS:
        ring.world.step()
    ring.world.network.one_way_cuts.add(("p10", "p20"))
    ring.world.run(5.0)
    assert _status(ring, 20) is Status.INS
    ring.world.network.heal()
    ring.world.settle()
    assert [node.key for node in ring.check_settled()] == [10, 20, 30]


def _status(ring: OverlayRing, key: int) -> Status:
    return next(node.ring.status for node in ring.all_nodes() if node.me.key == key)


def test_what_arrives_for_a_node_that_joins_or_left_is_delivered() -> None:
    ring = quiet_ring(10, 30)
    world, sender = ring.world, ring.peers["p10"]
    ring.add(20)
    # p10 has taken the node in, and sends to it before its acknowledgement can have arrived
    while ring.walk()[1].key != 20:
        world.step()
    world.network.delay_s = lambda _from, _to: 0.0005
    world.act("p10", sender.route(25, "early", world.now))
    world.settle()
    ring.remove(20)
    world.act("p10", sender.route(25, "late", world.now))
    world.settle()
    delivered = [event for _, _, event in world.events if isinstance(event, Delivered)]
    assert [(event.node.key, event.payload, event.hops) for event in delivered] == [
        (20, "early", 1),
        (10, "late", 2),
    ]


@pytest.mark.parametrize("seq", [LinkSeq(0, 0), LinkSeq(2**62, 0)])
def test_a_left_link_that_is_older_or_impossible_does_not_count(seq: LinkSeq) -> None:
    ring = quiet_ring(10, 20, 30)
    me = next(node for node in ring.all_nodes() if node.me.key == 20)
    liar: Node = NodeOf(15, "liar", 1)
    ring.world.act(
        "p20", ring.peers["p20"].on_message("liar", SetL(me.me, liar, seq, ()), ring.world.now)
    )
    ring.world.settle()
    ring.check_settled()


def test_nobody_deletes_or_inserts_a_node_of_another_peer() -> None:
    ring = quiet_ring(10, 20, 30)
    nodes = {node.me.key: node.me for node in ring.all_nodes()}
    new: Node = NodeOf(15, "p20", 5)
    forged = [
        SetR(nodes[10], 1, nodes[20], LinkChange.DELETE, nodes[30], nodes[20], LinkSeq(0, 5)),
        SetR(nodes[10], 1, new, LinkChange.INSERT, new, nodes[20], LinkSeq(0, 0)),
    ]
    for message in forged:
        ring.world.act("p10", ring.peers["p10"].on_message("liar", message, ring.world.now))
    ring.world.settle()
    assert len(ring.check_settled()) == 3
    assert ring.peers["p10"].counters["unsound_messages"] == 2


def test_params_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="reply_s has to be above 0"):
        SuzakuParams(reply_s=0)
    assert SuzakuParams(ping_s=inf).ping_s == inf


@pytest.mark.overlay_property(4)
def test_a_right_pointer_that_skips_a_node_is_noticed() -> None:
    ring = quiet_ring(10, 20, 30)
    watch = Watch(ring)
    watch.look()
    nodes = {node.me.key: node for node in ring.all_nodes()}
    nodes[10].ring.right = nodes[30].me
    with pytest.raises(AssertionError, match="20"):
        watch.look_right()

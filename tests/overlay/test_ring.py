"""The ring stays one sorted cycle while nodes come and go, and is repaired when they crash."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.overlay.messages import LinkChange, SetL, SetR
from nearcast.overlay.nodes import LinkSeq, Node, NodeOf
from nearcast.overlay.overlay import Delivered, Found, KeyAbandoned
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.ring import Status
from nearcast.testing.overlay_ring import QUIET, OverlayRing
from nearcast.testing.simulated_network import Network

PINGING = SuzakuParams(ping_s=1.0, finger_s=1.0, reply_s=0.2, suspicion_s=5.0)


def _uneven(seed: int) -> Network:
    """Delays of a pair are its own, so messages of different pairs overtake each other."""

    def delay_s(sender: str, receiver: str) -> float:
        return Random(f"{seed} {sender} {receiver}").uniform(0.001, 0.05)

    return Network(delay_s=delay_s, jitter_s=0.01)


class _Watch:
    """Looks at the ring after each event."""

    def __init__(self, ring: OverlayRing) -> None:
        self.ring = ring
        self.lseqs: dict[Node, LinkSeq] = {}
        self.open: dict[tuple[str, int], tuple[int, set[Node]]] = {}

    def look(self) -> None:
        ring = self.ring.walk()
        for node in self.ring.all_nodes():
            assert node.ring.lseq >= self.lseqs.get(node.me, LinkSeq(0, 0))
            self.lseqs[node.me] = node.ring.lseq
        for target, answers in self.open.values():
            answers.add(_responsible(ring, target))


def _responsible(ring: list[Node], target: int) -> Node:
    return max((node for node in ring if node.key <= target), default=ring[-1])


@settings(max_examples=60, deadline=None)
@example(seed=1126, count=11)  # a finger at a node that had left brought messages back to it
@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
def test_joins_leaves_and_lookups_at_once_see_one_sorted_ring(seed: int, count: int) -> None:
    rng = Random(seed)
    ring = OverlayRing(QUIET, _uneven(seed), seed)
    ring.fill([500])
    watch = _Watch(ring)
    ring.world.on_step = watch.look
    keys = rng.sample(range(1, 1000, 2), count)

    def ask() -> None:
        peer = rng.choice(list(ring.peers.values()))
        target = rng.randrange(1000)
        query, actions = peer.lookup(target, ring.world.now)
        watch.open[peer.peer, query] = (target, {_responsible(ring.walk(), target)})
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
    ring = OverlayRing(QUIET, _uneven(1))
    ring.fill([0])
    for key in range(1, 101):
        ring.add(key)
    ring.world.settle()
    assert len(ring.check_settled()) == 101


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(3, 16))
def test_crashes_and_lost_messages_are_repaired(seed: int, count: int) -> None:
    rng = Random(seed)
    ring = OverlayRing(PINGING, _uneven(seed), seed)
    keys = rng.sample(range(1000), count)
    for key in keys:
        ring.add(key)
        ring.world.run(2.0)
    ring.world.network.loss = 0.2
    ring.world.run(2.0)
    dead = rng.sample(keys, rng.randrange(1, count))
    for key in dead:
        ring.crash(f"p{key}")
        ring.world.run(rng.uniform(0, 0.3))
    ring.world.network.loss = 0.0
    longest = max(len(dead), 1)
    # a node that was suspected by mistake is asked again when the suspicion has ended
    ring.world.run(
        (longest + 2) * (PINGING.ping_s * 1.1 + 6 * PINGING.reply_s) + 3 * PINGING.suspicion_s
    )
    assert [node.key for node in ring.check_settled()] == sorted(set(keys) - set(dead))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
def test_two_parts_that_were_cut_become_one_ring_again(seed: int, count: int) -> None:
    rng = Random(seed)
    ring = OverlayRing(PINGING, _uneven(seed), seed)
    keys = rng.sample(range(1000), count)
    for key in keys:
        ring.add(key)
        ring.world.run(2.0)
    part = rng.sample(list(ring.peers), rng.randrange(1, count))
    ring.world.network.cuts |= {
        frozenset((one, other)) for one in part for other in ring.peers if other not in part
    }
    ring.world.run(30.0)
    ring.world.network.heal()
    ring.world.run(60.0)
    assert [node.key for node in ring.check_settled()] == sorted(keys)


def _quiet_ring(*keys: int) -> OverlayRing:
    ring = OverlayRing()
    ring.fill(keys)
    return ring


def _check_left(ring: OverlayRing, node: OverlayNode) -> None:
    peer, now = ring.peers[node.me.peer], ring.world.now
    ring.world.act(peer.peer, peer.on_timer(now))
    node.repair.start()
    ring.world.act(peer.peer, peer.on_timer(now))


def test_a_search_that_waits_while_the_left_node_leaves_keeps_every_right_pointer() -> None:
    # a candidate that is gone makes node 40 wait; meanwhile its left neighbour leaves
    ring = _quiet_ring(10, 20, 30, 40, 50)
    me = next(node for node in ring.all_nodes() if node.me.key == 40)
    left = next(node for node in ring.all_nodes() if node.me.key == 30)
    silent: Node = NodeOf(35, "silent", 1)
    me.fingers.put(False, 1, (silent,))
    rights: list[tuple[Node, Node]] = []

    def note() -> None:
        ring.walk()
        rights.append((me.me, me.ring.right))

    ring.world.on_step = note
    _check_left(ring, me)
    ring.world.run(0.1)
    assert me.repair.is_running
    ring.remove(left.me.key)
    ring.world.settle()
    assert not me.repair.is_running
    assert [node.key for node in ring.check_settled()] == [10, 20, 40, 50]
    assert {right.key for _, right in rights} == {50}


@settings(max_examples=20, deadline=None)
@example(seed=12, count=4)  # a node that does not know yet that it has joined was cut off
@example(seed=27995, count=9)  # what it was asked meanwhile was never answered
@given(seed=st.integers(0, 10**6), count=st.integers(4, 12))
def test_pings_that_race_with_leaves_take_no_node_off_the_ring(seed: int, count: int) -> None:
    # peers that have left end, so that repairs wait for candidates that are silent
    rng = Random(seed)
    pinging = replace(PINGING, ping_s=0.1, finger_s=0.3)
    ring = OverlayRing(pinging, _uneven(seed), seed)
    keys = rng.sample(range(1000), count)
    for key in keys:
        ring.add(key)
        ring.world.run(0.5)
    ring.world.on_step = _Watch(ring).look  # after each event: one cycle of all that are on it

    def end(key: int) -> None:
        nodes = ring.peers[f"p{key}"].own.by_node.values()
        if any(node.ring.status is not Status.OUT for node in nodes):
            ring.world.at(ring.world.now + 0.5, end, key)  # it has to try again
        else:
            ring.crash(f"p{key}")

    leaving = rng.sample(keys, count // 2)
    for key in leaving:
        at_s = ring.world.now + rng.uniform(0.0, 1.5)
        ring.world.at(at_s, ring.remove, key)
        ring.world.at(at_s + 0.5, end, key)
    stays = next(f"p{key}" for key in keys if key not in leaving)

    def join(key: int) -> None:
        ring.add(key, ring.start_peer(f"p{key}", [stays]))

    for key in rng.sample(range(1000, 2000), count // 2):
        ring.world.at(ring.world.now + rng.uniform(0.0, 2.0), join, key)
        keys.append(key)
    ring.world.run(6.0)
    assert [node.key for node in ring.check_settled()] == sorted(set(keys) - set(leaving))


def test_a_repair_after_a_lost_set_left_keeps_the_right_pointer() -> None:
    ring = _quiet_ring(10, 20, 30)
    me = next(node for node in ring.all_nodes() if node.me.key == 30)
    me.ring.left, me.ring.lseq = NodeOf(5, "gone", 1), LinkSeq(0, 0)
    _check_left(ring, me)
    ring.world.settle()
    assert [node.key for node in ring.check_settled()] == [10, 20, 30]


def test_a_node_that_its_left_one_skipped_is_put_back() -> None:
    ring = _quiet_ring(10, 20, 30)
    nodes = {node.me.key: node for node in ring.all_nodes()}
    skipping, me, after = nodes[10].ring, nodes[20], nodes[30].ring
    skipping.right, skipping.rseq = after.me, LinkSeq(0, 9)
    after.left, after.lseq = skipping.me, LinkSeq(0, 9)
    _check_left(ring, me)
    ring.world.settle()
    assert [node.key for node in ring.check_settled()] == [10, 20, 30]


def test_an_acknowledgement_that_is_lost_does_not_insert_twice() -> None:
    ring = _quiet_ring(10, 30)
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
    ring = _quiet_ring(10, 30)
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
    ring = _quiet_ring(10, 20, 30)
    me = next(node for node in ring.all_nodes() if node.me.key == 20)
    liar: Node = NodeOf(15, "liar", 1)
    ring.world.act(
        "p20", ring.peers["p20"].on_message("liar", SetL(me.me, liar, seq, ()), ring.world.now)
    )
    ring.world.settle()
    ring.check_settled()


def test_nobody_deletes_or_inserts_a_node_of_another_peer() -> None:
    ring = _quiet_ring(10, 20, 30)
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

"""Every index has one owner at every step, and no message is lost; on the exact overlay."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import ConfigError
from nearcast.routing.index_mapping import ContentMapping
from nearcast.routing.keys import CLOUD, INDEX_END, PUBLISHER
from nearcast.routing.route_actions import RouteAction, SendPeer
from nearcast.routing.route_messages import Data
from routing.lasr_world import (
    EDGE,
    PROBES,
    SETTINGS,
    TOPIC,
    LasrWorld,
    Offloaded,
    Reject,
    ReplicaEnded,
    check_owners,
)

KYOTO = ("jp", "kyoto")
HALF, QUARTER = INDEX_END // 2, INDEX_END // 4
SEEDS = st.integers(0, 2**32)


def cloud_world(seed: int, components: int = 1, **changed: object) -> LasrWorld:
    """Components that share the indexes, and two brokers in the edge net."""
    world = LasrWorld(seed, replace(SETTINGS, **changed))  # type: ignore[arg-type]
    for number in range(components):
        router = world.add(f"d{number}")
        low, high = (INDEX_END * (number + step) // components for step in (0, 1))
        world.do(router.peer, router.subscribe(TOPIC, low, high, 0.0))
    for number in (1, 2):
        world.add(f"b{number}", EDGE)
    return world


def edge_node(world: LasrWorld, name: str) -> None:
    router = world.add(name, EDGE)
    world.do(name, router.offer_room())


def all_arrived(world: LasrWorld) -> bool:
    arrived = Counter(body for _, body in world.delivered())
    return set(arrived.values()) <= {1} and len(arrived) == world.published


@pytest.mark.overlay_property(11)
@given(SEEDS, st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_first_messages_find_their_owners_whose_keys_are_then_in_the_net(
    seed: int, components: int
) -> None:
    world = cloud_world(seed, components)
    for _ in range(40):
        world.publish("b1")
        world.publish("b2")
    world.run(1)
    for _ in range(100):
        world.publish("b1")
    world.run(1)
    assert all_arrived(world)
    keys = world.subscriber_keys()
    assert [index for index, _ in keys] == [
        INDEX_END * number // components for number in range(components)
    ]
    before = sum(node.router.counts.fallbacks for node in world.nodes.values())
    for _ in range(50):
        world.publish("b2")
    world.run(1)
    after = sum(node.router.counts.fallbacks for node in world.nodes.values())
    assert after == before
    assert all_arrived(world)


def test_a_topic_without_component_is_told_to_who_published() -> None:
    world = LasrWorld(1)
    world.add("b1", EDGE)
    world.add("b2", KYOTO)
    world.do("b2", world.nodes["b2"].router.publish("another", b"", 0.0))
    world.publish("b1")
    world.run(1)
    assert ("b1", Reject(TOPIC, "no component has the topic")) in world.told(Reject)


@pytest.mark.overlay_property(11)
@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_idle_publishers_leave_and_join_anew_without_loss(seed: int) -> None:
    world = cloud_world(seed)
    for pause_s in (0.0, 0.02, 4.4, 4.6, 9.0, 0.0):
        world.run(pause_s)
        world.publish("b1")
        world.publish("b2")
    world.run(3)
    assert all_arrived(world)
    assert sum(node.key.flag == PUBLISHER for node in world.directory.nodes) == 2
    world.run(6)
    assert not any(node.key.flag == PUBLISHER for node in world.directory.nodes)


@pytest.mark.overlay_property(10)
@pytest.mark.overlay_property(11)
@given(SEEDS, st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_split_moves_the_lower_half_and_loses_nothing(seed: int, joins_first: bool) -> None:
    world = cloud_world(seed, replica_joins_first=joins_first)
    edge_node(world, "r1")
    world.publish("b1")
    world.run(1)
    world.world.after_event = lambda: check_owners(world)
    world.offload("d0")
    for _ in range(100):
        world.publish("b1")
        world.publish("b2")
        world.run(0.01)
    world.run(1)
    assert world.told(Offloaded) == [("d0", Offloaded(TOPIC, "r1"))]
    assert world.subscriber_keys() == [(0, "r1"), (HALF, "d0")]
    assert all_arrived(world)
    assert world.nodes["r1"].router.counts.delivered > 10
    late = len(world.delivered())
    for _ in range(200):
        world.publish("b2")
    world.run(1)
    after = Counter(name for name, _ in world.delivered()[late:])
    assert 60 < after["r1"] < 140
    assert after["r1"] + after["d0"] == 200


def test_the_papers_order_misdelivers_but_the_safe_one_does_not_touch_the_upper_half() -> None:
    strayed = dict.fromkeys((False, True), 0)
    for joins_first, seed in product(strayed, range(5)):
        world = cloud_world(seed, replica_joins_first=joins_first)
        edge_node(world, "r1")
        world.publish("b1")
        world.run(1)
        world.offload("d0")
        for _ in range(300):
            world.publish("b1")
            world.run(0.001)
        world.run(1)
        assert all_arrived(world)
        strayed[joins_first] += world.nodes["r1"].router.counts.fallbacks
    assert strayed[False] == 0 < strayed[True]


def test_everything_can_be_offloaded() -> None:
    world = cloud_world(1)
    edge_node(world, "r1")
    world.publish("b1")
    world.run(1)
    world.offload("d0", split_at=INDEX_END)
    world.run(1)
    assert world.subscriber_keys() == [(0, "r1")]
    assert {world.owner(index) for index in PROBES} == {"r1"}
    assert {world.owner(index, KYOTO) for index in PROBES} == {"d0"}


def test_a_replica_that_returns_its_part_gives_none_of_it_away() -> None:
    world = cloud_world(1)
    edge_node(world, "r1")
    world.publish("b1")
    world.run(1)
    world.offload("d0")
    world.run(1)
    world.do("r1", world.nodes["r1"].router.scale_in(TOPIC, world.world.now))
    with pytest.raises(ConfigError, match="under way"):
        world.offload("r1")


def test_a_merge_out_of_order_keeps_the_key_of_the_upper_part() -> None:
    """The paper's rule would give the upper half to c2 here."""
    world = cloud_world(1)
    world.publish("b1")
    world.run(1)
    for name, split_at in (("c1", QUARTER), ("c2", HALF)):
        edge_node(world, name)
        world.offload("d0", split_at, name)
        world.run(1)
    assert world.subscriber_keys() == [(0, "c1"), (QUARTER, "c2"), (HALF, "d0")]
    world.do("c1", world.nodes["c1"].router.scale_in(TOPIC, world.world.now))
    world.run(1)
    assert world.subscriber_keys() == [(0, "d0"), (QUARTER, "c2"), (HALF, "d0")]
    world.do("c2", world.nodes["c2"].router.scale_in(TOPIC, world.world.now))
    world.run(1)
    assert world.subscriber_keys() == [(0, "d0")]
    assert len(world.told(ReplicaEnded)) == 2


@pytest.mark.overlay_property(10)
@pytest.mark.overlay_property(11)
@given(SEEDS, st.lists(st.tuples(st.booleans(), st.integers(0, 2**32)), max_size=14))
@settings(max_examples=30, deadline=None)
def test_random_trees_of_splits_and_merges_keep_one_owner_and_every_message(
    seed: int, steps: list[tuple[bool, int]]
) -> None:
    world = cloud_world(seed)
    replicas: list[str] = []
    world.publish("b1")
    world.run(1)

    world.world.after_event = lambda: check_owners(world)
    for number, (is_split, pick) in enumerate(steps):
        holders = ["d0", *(name for name in replicas if world.nodes[name].router.held(TOPIC, EDGE))]
        if is_split:
            name = f"r{number}"
            edge_node(world, name)
            try:
                world.offload(holders[pick % len(holders)], None, name)
                replicas.append(name)
            except ConfigError:
                pass  # it has given everything away, or a step of its own is under way
        elif len(holders) > 1:
            name = holders[1 + pick % (len(holders) - 1)]
            with suppress(ConfigError):  # a step of its own may be under way
                world.do(name, world.nodes[name].router.scale_in(TOPIC, world.world.now))
        for _ in range(pick % 4):
            world.publish(("b1", "b2")[pick % 2])
            world.run(0.03)
    world.run(8)
    for _ in range(30):
        world.publish("b2")
    world.run(2)
    assert all_arrived(world)
    # At rest the holders' ranges are a partition, and their keys say the same as they do.
    held = sorted(
        (low, high, name)
        for name, node in world.nodes.items()
        for low, high in node.router.held(TOPIC, EDGE)
    )
    assert [low for low, _, _ in held] == [0, *(high for _, high, _ in held[:-1])]
    assert held[-1][1] == INDEX_END
    assert world.subscriber_keys() == [(low, name) for low, _, name in held]


class _Steps:
    """Counts the messages between two peers and crashes one of them at a given one."""

    def __init__(self, world: LasrWorld, victim: str, at: int) -> None:
        self.world, self.victim, self.left = world, victim, at

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0 and self.victim in self.world.nodes:
            self.world.crash(self.victim)


@pytest.mark.overlay_property(10)
@pytest.mark.parametrize("event", range(1, 41))
@pytest.mark.parametrize("is_merge", [False, True])
def test_a_replica_that_crashes_at_any_step_leaves_every_index_an_owner(
    event: int, is_merge: bool
) -> None:
    world = cloud_world(event)
    world.publish("b1")
    world.run(1)
    edge_node(world, "r1")
    if is_merge:
        world.offload("d0", None, "r1")
        world.run(1)
    world.world.after_event = _Steps(world, "r1", event)
    if is_merge:
        world.do("r1", world.nodes["r1"].router.scale_in(TOPIC, world.world.now))
    else:
        world.offload("d0", None, "r1")
    for _ in range(20):
        world.run(0.05)
    if "r1" in world.nodes:
        world.crash("r1")
    world.run(10)
    assert {world.owner(index) for index in PROBES} == {"d0"}
    assert world.subscriber_keys() == [(0, "d0")]
    before = len(world.delivered())
    for _ in range(50):
        world.publish("b1")
    world.run(1)
    assert len(world.delivered()) - before == 50


@pytest.mark.overlay_property(12)
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_one_content_id_is_processed_at_one_place_once_a_split_is_done(seed: int) -> None:
    world = LasrWorld(seed, mappings={TOPIC: ContentMapping(lambda body: body[:1])})
    router = world.add("d0")
    world.do("d0", router.subscribe(TOPIC, 0, INDEX_END, 0.0))
    world.add("b1", EDGE)
    for _ in range(3):
        edge_node(world, f"r{_}")
        world.publish("b1", b"warm")
        world.run(1)
        world.offload("d0", None, f"r{_}")
        world.run(1)
        start = len(world.delivered())
        for user in range(200):
            world.publish("b1", bytes([user]) + b" once")
            world.publish("b1", bytes([user]) + b" twice")
        world.run(1)
        places: dict[int, set[str]] = {}
        for name, body in world.delivered()[start:]:
            places.setdefault(body[0], set()).add(name)
        assert len(places) == 200
        assert all(len(names) == 1 for names in places.values())
    assert len(set.union(*places.values())) == 4


def test_searchers_who_reach_one_node_are_served_once_and_wrapping_finds_it() -> None:
    world = cloud_world(2, components=3)
    for _ in range(60):
        world.publish("b1")
    world.run(1)
    edge_node(world, "r1")
    for name in ("d0", "d1", "d2"):
        world.offload(name)
    world.run(5)
    told = [one for _, one in world.told(Offloaded) if isinstance(one, Offloaded)]
    assert sorted(one.replica or "" for one in told) == ["", "", "r1"]
    assert sum(peer == "r1" for _, peer in world.subscriber_keys()) == 1
    assert not any(node.key.topic == "underloaded" for node in world.directory.nodes)


def test_a_node_that_a_searcher_left_waiting_is_offered_again() -> None:
    world = cloud_world(2)
    edge_node(world, "r1")
    world.publish("b1")
    world.run(1)
    world.offload("d0")
    while any(node.key.topic == "underloaded" for node in world.directory.nodes):
        world.run(0.001)
    world.crash("d0")
    world.run(4)
    assert [node.peer for node in world.directory.nodes if node.key.topic == "underloaded"] == [
        "r1"
    ]


def test_no_room_anywhere_is_told_after_some_tries() -> None:
    world = cloud_world(2)
    world.publish("b1")
    world.run(1)
    world.offload("d0")
    world.run(5)
    assert world.told(Offloaded) == [("d0", Offloaded(TOPIC, None))]
    assert world.subscriber_keys() == [(0, "d0")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.subscribe(TOPIC, 5, 5, 0.0), "range"),
        (lambda r: r.subscribe("underloaded", 0, 5, 0.0), "taken"),
        (lambda r: r.subscribe(TOPIC, 0, 5, 0.0), "is taken"),
        (lambda r: r.offload("x", EDGE, 0.0), "no component"),
        (lambda r: r.offload(TOPIC, EDGE, 0.0, split_at=0), "split point 0"),
        (lambda r: r.scale_in(TOPIC, 0.0), "no replica"),
    ],
)
def test_what_cannot_be_done_is_said(call: object, message: str) -> None:
    world = cloud_world(1)
    with pytest.raises(ConfigError, match=message):
        call(world.nodes["d0"].router)  # type: ignore[operator]


def test_tables_that_others_can_grow_have_an_end() -> None:
    world = cloud_world(1, max_nets=2, max_topics=2, max_backlog=3, max_seen=4)
    router = world.nodes["d0"].router
    for number in range(6):
        key = world.directory.nodes[0].key
        data = Data(TOPIC, (f"net{number}",), 5, "b1", number, b"", is_fallback=True)
        world.do("d0", router.on_routed(key, data, 0.0))
    assert len({net for net in range(6) if router.held(TOPIC, (f"net{net}",))}) == 2
    assert (router.counts.nets_refused, router.counts.delivered) == (4, 6)
    broker = world.nodes["b1"].router
    actions: list[RouteAction] = []
    for topic in ("a", "a", "a", "a", "b", "c"):
        actions += broker.publish(topic, b"", 0.0)
    assert [one.topic for one in actions if isinstance(one, Reject)] == ["a", "c"]
    assert broker.counts.backlog_full == 2


def test_a_message_that_arrives_twice_is_delivered_once() -> None:
    world = cloud_world(1)
    router, key = world.nodes["d0"].router, world.directory.nodes[0].key
    assert key.net == CLOUD
    data = Data(TOPIC, CLOUD, 5, "b1", 7, b"")
    first, second = (router.on_routed(key, data, 0.0) for _ in range(2))
    assert len(first) == 1
    assert second == []
    assert router.counts.duplicates == 1
    assert not any(isinstance(one, SendPeer) for one in first)


@given(SEEDS, st.lists(st.tuples(st.sampled_from("smc"), st.integers(0, 2**32)), max_size=12))
@settings(max_examples=30, deadline=None)
def test_after_crashes_among_replicas_every_message_still_arrives_once(
    seed: int, steps: list[tuple[str, int]]
) -> None:
    world = cloud_world(seed)
    world.publish("b1")
    world.run(1)
    for number, (step, pick) in enumerate(steps):
        holders = [name for name in world.nodes if world.nodes[name].router.held(TOPIC, EDGE)]
        replicas = [name for name in holders if name != "d0"]
        if step == "s" and holders:
            edge_node(world, f"r{number}")
            with suppress(ConfigError):
                world.offload(holders[pick % len(holders)], None, f"r{number}")
        elif replicas:
            name = replicas[pick % len(replicas)]
            if step == "c":
                world.crash(name)
            else:
                with suppress(ConfigError):
                    world.do(name, world.nodes[name].router.scale_in(TOPIC, world.world.now))
        world.run((0.0, 0.02, 0.3)[pick % 3])
    world.run(20)
    before = len(world.delivered())
    for _ in range(60):
        world.publish("b2")
    world.run(2)
    after = Counter(body for _, body in world.delivered()[before:])
    assert len(after) == 60 == after.total()

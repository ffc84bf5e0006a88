"""The exact overlay answers as a sorted list does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nearcast.overlay.nodes import NodeOf, after_key, before_key, is_between, owns, passes
from nearcast.overlay.overlay import Delivered, Found, RangeEnded
from nearcast.testing.overlay_world import OverlayWorld
from overlay.oracle import Directory, OracleOverlay


def _world(keys: dict[str, list[int]]) -> tuple[OverlayWorld, dict[str, OracleOverlay]]:
    directory, world = Directory(), OverlayWorld()
    peers = {name: OracleOverlay(name, directory) for name in keys}
    for name, peer in peers.items():
        world.add_peer(peer)
        for key in keys[name]:
            world.act(name, peer.add_key(key, 0.0))
    world.events.clear()
    return world, peers


def test_a_payload_reaches_the_largest_key_that_does_not_exceed_the_target() -> None:
    world, peers = _world({"a": [10, 30], "b": [20]})
    for target, expected in ((10, 10), (19, 10), (20, 20), (29, 20), (99, 30), (5, 30)):
        world.act("a", peers["a"].route(target, "payload", world.now))
        world.settle()
        (_, peer, event) = world.events.pop()
        assert isinstance(event, Delivered)
        assert (event.node.key, event.origin, event.hops) == (expected, "a", int(peer == "b"))
        _, (found,) = peers["b"].lookup(target, world.now)
        assert isinstance(found, Found)
        assert found.node == event.node


def test_a_payload_on_its_way_follows_a_key_that_moved() -> None:
    world, peers = _world({"a": [10], "b": [20]})
    world.act("a", peers["a"].route(25, "payload", world.now))
    world.act("b", peers["b"].remove_key(20, world.now))
    world.settle()
    (_, peer, event) = world.events[-1]
    assert isinstance(event, Delivered)
    assert (peer, event.node.key, event.hops) == ("a", 10, 2)


def test_a_multicast_reaches_each_key_of_its_range_once() -> None:
    world, peers = _world({"a": [10, 30, 50], "b": [20, 40]})
    query, actions = peers["a"].multicast(20, 50, "all", world.now)
    world.act("a", actions)
    world.settle()
    delivered = [event for _, _, event in world.events if isinstance(event, Delivered)]
    assert sorted(event.node.key for event in delivered) == [20, 30, 40]
    (ended,) = [event for _, _, event in world.events if isinstance(event, RangeEnded)]
    assert ended.query == query
    assert ended.complete
    assert [node.key for node in ended.nodes] == [20, 30, 40]


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_order_on_the_ring_is_the_order_of_walking_round_it(numbers: list[int]) -> None:
    start, place, end = numbers
    walk = [(start + step) % 10 for step in range(1, 11)]
    walk = walk[: walk.index(end)] if start != end else walk[:-1]

    def node(number: int) -> NodeOf[int]:
        return NodeOf(number, "p", 0)

    assert is_between(node(start), node(place), node(end)) == (place in walk)
    assert passes(node(start), node(place), node(end)) == (place in [*walk, end])
    assert owns(node(start), node(end), node(place)) == (place in [start, *walk])


@given(st.text(), st.integers(0))
def test_all_nodes_of_a_key_lie_between_its_ends(peer: str, nonce: int) -> None:
    if peer < "\U0010ffff":
        assert before_key(5) < NodeOf(5, peer, nonce) < after_key(5)

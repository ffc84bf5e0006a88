"""What a peer says about ranges that are not its own changes nothing, and nothing circles."""

from __future__ import annotations

import pytest

from nearcast.routing.keys import INDEX_END, UNIQUE_MAX, subscriber_key
from nearcast.routing.route_actions import AddKey, SendPeer
from nearcast.routing.route_messages import (
    Adopt,
    Cancel,
    ChildRange,
    Data,
    HeldRange,
    Left,
    Offered,
    Refused,
    Release,
    Renew,
    Return,
    RouteMessage,
    Search,
    TakeOver,
    Took,
)
from routing.lasr_world import EDGE, TOPIC, LasrWorld

HALF = INDEX_END // 2


@pytest.fixture
def split() -> tuple[LasrWorld, int]:
    """d0 has given its lower half in the edge net to r1; the delegation's number."""
    world = LasrWorld(1)
    world.do("d0", world.add("d0").subscribe(TOPIC, 0, INDEX_END, 0.0))
    world.add("b1", EDGE)
    world.do("r1", world.add("r1", EDGE).offer_room())
    world.publish("b1")
    world.run(1)
    world.offload("d0")
    world.run(1)
    ((_, _, one),) = world.nodes["d0"].router._delegations()
    return world, one.number


def _lies(number: int) -> list[RouteMessage]:
    whole = (HeldRange(0, HALF, 5),)
    return [
        *(kind(number) for kind in (Offered, Refused, Took, Renew, Left, Release, Cancel)),
        Return(number, whole, ()),
        Adopt(number, "somebody"),
        TakeOver(number, "other", EDGE, 0, HALF, 5),
    ]


@pytest.mark.parametrize("at", ["d0", "r1"])
def test_a_stranger_who_knows_the_number_changes_nothing(
    split: tuple[LasrWorld, int], at: str
) -> None:
    world, number = split
    router = world.nodes[at].router
    lies = _lies(number)
    for lie in lies:
        world.do(at, router.on_message("liar", lie, world.world.now))
    world.run(1)
    assert world.subscriber_keys() == [(0, "r1"), (HALF, "d0")]
    assert router.counts.refused == len(lies)


@pytest.mark.parametrize(
    ("held", "children"),
    [
        (((0, HALF + 1),), ()),
        (((1, HALF),), ()),
        (((0, 5), (4, HALF)), ()),
        (((0, 5), (6, HALF)), ()),
        (((5, 0), (0, HALF)), ()),
        ((), ()),
        (((0, HALF),), ((HALF, INDEX_END),)),
    ],
)
def test_a_replica_that_returns_what_it_does_not_have_is_refused(
    split: tuple[LasrWorld, int],
    held: tuple[tuple[int, int], ...],
    children: tuple[tuple[int, int], ...],
) -> None:
    world, number = split
    router = world.nodes["d0"].router
    lie = Return(
        number,
        tuple(HeldRange(low, high, 5) for low, high in held),
        tuple(ChildRange(9, "c", low, high, 5) for low, high in children),
    )
    assert router.on_message("r1", lie, world.world.now) == []
    assert router.counts.refused == 1
    assert router.held(TOPIC, EDGE) == [(HALF, INDEX_END)]


def test_a_return_behind_which_no_key_fits_is_refused(split: tuple[LasrWorld, int]) -> None:
    world, number = split
    lie = Return(number, (HeldRange(0, HALF, UNIQUE_MAX),), ())
    assert world.nodes["d0"].router.on_message("r1", lie, world.world.now) == []


def test_a_node_that_did_not_offer_room_takes_no_range(split: tuple[LasrWorld, int]) -> None:
    world, _ = split
    router = world.add("r2", EDGE)
    lie = TakeOver(7, "other", EDGE, 0, HALF, 5)
    assert router.on_message("liar", lie, 0.0) == [SendPeer("liar", Refused(7))]
    world.do("r2", router.offer_room())
    search = Search("somebody", 7, EDGE)
    assert router.on_message("liar", search, 0.0) == []
    for bad in (
        TakeOver(7, "other", ("jp", "kyoto"), 0, HALF, 5),
        TakeOver(7, "other", EDGE, HALF, 0, 5),
        TakeOver(7, "other", EDGE, 0, INDEX_END + 1, 5),
        TakeOver(7, "underloaded", EDGE, 0, HALF, 5),
        TakeOver(7, "other", EDGE, 0, HALF, UNIQUE_MAX),
    ):
        router.on_message("liar", Search("liar", 7, EDGE), 0.0)
        assert router.on_message("liar", bad, 0.0) == [SendPeer("liar", Refused(7))]


def test_a_node_that_lies_about_its_range_cannot_make_messages_circle() -> None:
    """Its key stands in the middle of the net; whatever it catches and sends on arrives once."""
    world = LasrWorld(1)
    world.do("d0", world.add("d0").subscribe(TOPIC, 0, INDEX_END, 0.0))
    world.add("b1", EDGE)
    world.publish("b1")
    world.run(1)
    world.add("liar", EDGE)
    world.do("liar", [AddKey(subscriber_key(TOPIC, EDGE, HALF, 1))])
    for _ in range(50):
        world.publish("b1")
    world.run(1)
    assert len({body for _, body in world.delivered()}) == 51 == len(world.delivered())
    assert {name for name, _ in world.delivered()} == {"d0"}


def test_a_fallback_that_ends_at_a_wrong_key_is_not_sent_on() -> None:
    world = LasrWorld(1)
    router = world.add("b1", EDGE)
    data = Data(TOPIC, EDGE, 5, "b2", 1, b"", is_fallback=True)
    (told,) = router.on_routed(subscriber_key("other", EDGE, 0, 1), data, 0.0)
    assert isinstance(told, SendPeer)
    assert told.peer == "b2"

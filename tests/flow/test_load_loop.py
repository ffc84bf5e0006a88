"""Loads become decisions: what is given, to whom, and that parts do not wander to and fro."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.flow.load_loop import (
    Decision,
    Give,
    GiveBack,
    LoadLoop,
    LoadSettings,
    NoRoom,
    OfferRoom,
    SeekRoom,
    ServerLoad,
)
from nearcast.flow.messages import Part
from nearcast.flow.shedding import InstanceLoad, Splits, choose_shed
from nearcast.routing.keys import CLOUD, INDEX_END, NetPath

NET: NetPath = ("north",)
WHOLE = Part(None, 0, INDEX_END)
BUSY, CALM = ServerLoad(0.95, 0.0), ServerLoad(0.6, 0.0)


def instance(
    *,
    splits: Splits = Splits.ALL_NETS,
    busy_share: float = 0.9,
    queue_age_s: float = 0.0,
    began_at: str = "",
    held: tuple[Part, ...] = (WHOLE,),
    recent: list[tuple[NetPath, int]] | None = None,
    component: str = "count",
) -> InstanceLoad:
    if recent is None:
        recent = [(NET, at * INDEX_END // 100) for at in range(100)]
    return InstanceLoad("f", component, began_at, splits, busy_share, queue_age_s, held, recent)


def decide(
    loop: LoadLoop, load: ServerLoad, one: InstanceLoad, start: float, seconds: float
) -> list[Decision]:
    """Return what a loop decides while a load lasts, told twice a second."""
    steps = int(seconds * 2) + 1
    return [two for at in range(steps) for two in loop.on_loads(load, [one], start + at / 2)]


def test_what_lasts_is_given_to_who_has_room_in_the_net_of_the_messages() -> None:
    loop = LoadLoop(("south",))
    (seek,) = decide(loop, BUSY, instance(), 0.0, 2.0)
    assert seek == SeekRoom(1, NET)
    (give,) = loop.on_room(1, "edge-2", 2.0)
    assert isinstance(give, Give)
    assert (give.to, give.part) == ("edge-2", Part(None, 0, INDEX_END // 2))
    assert "90%" in give.why


def test_what_does_not_last_has_no_consequence() -> None:
    loop = LoadLoop(CLOUD)
    for start in range(0, 40, 2):
        assert decide(loop, BUSY, instance(), start, 1.0) == []
        assert decide(loop, CALM, instance(busy_share=0.5), start + 1.5, 0.0) == []


@pytest.mark.parametrize("load", [ServerLoad(0.1, 0.6), ServerLoad(0.9, 0.0)])
def test_lag_counts_like_cpu(load: ServerLoad) -> None:
    assert SeekRoom(1, NET) in decide(LoadLoop(CLOUD), load, instance(), 0.0, 2.0)


def test_messages_that_wait_count_like_cpu() -> None:
    one = instance(queue_age_s=0.7)
    assert decide(LoadLoop(CLOUD), ServerLoad(0.3, 0.0), one, 0.0, 2.0) == [SeekRoom(1, NET)]


def test_room_is_sought_in_one_net_after_the_other_then_later_again() -> None:
    loop = LoadLoop(("south",), LoadSettings(rest_s=5.0))
    assert decide(loop, BUSY, instance(), 0.0, 2.0) == [SeekRoom(1, NET)]
    assert loop.on_room(1, None, 2.1) == [SeekRoom(2, ("south",))]
    assert loop.on_room(1, "late", 2.1) == []
    # no answer at all is one as well
    assert decide(loop, BUSY, instance(), 2.5, 5.0) == [SeekRoom(3, CLOUD)]
    (told,) = loop.on_room(3, None, 8.0)
    assert isinstance(told, NoRoom)
    assert (told.component, told.nets) == ("count", (NET, ("south",), CLOUD))
    assert decide(loop, BUSY, instance(), 8.5, 4.0) == []
    assert decide(loop, BUSY, instance(), 13.0, 2.0) == [SeekRoom(4, NET)]


def _looked_in_vain(loop: LoadLoop, start: float) -> list[Decision]:
    """Return what a loop in the cloud says when it looks for room in both nets and finds none."""
    found = decide(loop, BUSY, instance(), start, 2.0)
    for _ in range(2):
        (seek,) = found
        assert isinstance(seek, SeekRoom)
        found = loop.on_room(seek.number, None, start + 2.0)
    return found


def test_that_nobody_has_room_is_told_once_until_that_changes() -> None:
    loop = LoadLoop(CLOUD, LoadSettings(rest_s=5.0))
    assert [type(one) for one in _looked_in_vain(loop, 0.0)] == [NoRoom]
    assert _looked_in_vain(loop, 7.0) == []
    loop.on_loads(CALM, [], 13.0)
    assert [type(one) for one in _looked_in_vain(loop, 14.0)] == [NoRoom]


def test_room_is_offered_while_there_is_little_to_do() -> None:
    loop = LoadLoop(CLOUD)
    idle = ServerLoad(0.1, 0.0)
    assert loop.on_loads(idle, [], 0.0) == []
    assert loop.on_loads(idle, [], 2.0) == [OfferRoom(True)]
    assert loop.on_loads(idle, [], 4.0) == []
    assert loop.on_loads(CALM, [], 5.0) == [OfferRoom(False)]
    loop.on_moved(6.0)
    assert loop.on_loads(idle, [], 6.0) == []
    assert loop.on_loads(idle, [], 10.5) == []
    assert loop.on_loads(idle, [], 11.5) == [OfferRoom(True)]


def test_an_idle_replica_goes_back_to_where_it_began() -> None:
    loop = LoadLoop(CLOUD, LoadSettings(idle_s=10.0))
    one = instance(busy_share=0.02, began_at="cloud")
    assert decide(loop, CALM, one, 0.0, 9.5) == []
    (back,) = decide(loop, CALM, one, 10.0, 0.0)
    assert isinstance(back, GiveBack)
    assert back.to == "cloud"
    first = instance(busy_share=0.02)
    assert decide(LoadLoop(CLOUD), CALM, first, 0.0, 100.0) == []


def test_without_a_state_the_busiest_net_alone_is_given() -> None:
    recent = [(NET, 10), (NET, 20), (NET, 30), (("south",), 1)]
    shed = choose_shed([instance(splits=Splits.ANYWHERE, recent=recent)])
    assert shed is not None
    assert shed.part == Part(NET, 0, 20)
    shed = choose_shed([instance(splits=Splits.ALL_NETS, recent=recent)])
    assert shed is not None
    assert shed.part == Part(None, 0, 20)


def test_messages_of_one_index_cannot_be_divided() -> None:
    assert choose_shed([instance(recent=[(NET, 7)] * 50)]) is None
    shed = choose_shed([instance(recent=[(NET, 7)] * 50 + [(NET, 9)] * 3)])
    assert shed is not None
    assert shed.part == Part(None, 0, 8)
    assert choose_shed([instance(recent=[])]) is None


def test_what_cannot_be_split_moves_whole_if_something_else_stays() -> None:
    one, two = instance(splits=Splits.WHOLE), instance(splits=Splits.WHOLE, component="match")
    assert choose_shed([one]) is None
    shed = choose_shed([one, two])
    assert shed is not None
    assert shed.part == WHOLE


def test_the_busiest_part_is_divided() -> None:
    parts = (Part(None, 0, 100), Part(None, 500, 600))
    recent = [(NET, 50)] + [(NET, 500 + at) for at in range(80)]
    shed = choose_shed([instance(held=parts, recent=recent)])
    assert shed is not None
    assert shed.part == Part(None, 500, 540)


@pytest.mark.parametrize("seed", range(20))
def test_servers_that_share_a_load_come_to_rest(seed: int) -> None:
    """Eight servers, and a load of 0.5 to 5 cores that begins on one: at most two moves for each."""
    rng = Random(seed)
    load = rng.uniform(0.5, 4.0)
    loops = {f"s{at}": LoadLoop(CLOUD) for at in range(8)}
    held: dict[str, list[Part]] = {name: [] for name in loops}
    held["s0"] = [WHOLE]
    offered: set[str] = set()
    moves, last_move_s = 0, 0.0
    for step in range(600):
        now = step * 0.5
        for name, loop in loops.items():
            share = sum((part.high - part.low) / INDEX_END for part in held[name]) * load
            recent = [
                (CLOUD, rng.randrange(part.low, part.high))
                for part in held[name]
                for _ in range(64)
            ]
            one = instance(busy_share=share, held=tuple(held[name]), recent=recent)
            wishes = list(loop.on_loads(ServerLoad(share, 0.0), [one] if recent else [], now))
            while wishes:
                wish = wishes.pop(0)
                if isinstance(wish, OfferRoom):
                    (offered.add if wish.is_offered else offered.discard)(name)
                elif isinstance(wish, SeekRoom):
                    found = min(offered - {name}, default=None)
                    wishes += loop.on_room(wish.number, found, now)
                elif isinstance(wish, Give):
                    offered.discard(wish.to)
                    (part,) = [one for one in held[name] if one.low == wish.part.low]
                    held[name].remove(part)
                    held[name].append(Part(None, wish.part.high, part.high))
                    held[wish.to].append(wish.part)
                    loop.on_moved(now)
                    loops[wish.to].on_moved(now)
                    moves, last_move_s = moves + 1, now
    shares = [sum((p.high - p.low) / INDEX_END for p in parts) * load for parts in held.values()]
    assert max(shares) < 0.95, shares
    assert moves <= 16
    assert last_move_s < 200

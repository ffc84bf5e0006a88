"""Servers that lie about flows, and rules without which the world of flows would not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from flow.test_flow_runtime import _check, _step
from nearcast.flow.finder import Finder
from nearcast.flow.instance import Instance
from nearcast.flow.messages import (
    Done,
    Floor,
    FlowMessage,
    HandOver,
    Held,
    HeldWanted,
    Owner,
    Part,
    PlacedPart,
    Refuse,
    Settled,
    TakenFrom,
    Took,
    Work,
    WorkItem,
)
from nearcast.flow.outbox import Outbox
from nearcast.flow.taken_numbers import TakenNumbers
from nearcast.routing.keys import INDEX_END
from nearcast.testing.flow_world import FlowWorld

_SERVERS = ("cloud", "edge1", "edge2")
_ABSURD = (1 << 63) - 1


def _lies(chance: Random, world: FlowWorld) -> Iterator[FlowMessage]:
    component = chance.choice(("first", "second", "apart", "nonsense"))
    where = ("recording", chance.choice((1, 1, 2)), component)
    topic = {"second": "between"}.get(component, "in")
    low = chance.randrange(INDEX_END)
    part = Part(None, low, INDEX_END)
    birth = chance.getrandbits(62)
    numbers = tuple(range(1, 40))
    yield Done(*where, topic, birth, numbers, part)
    for server in world.servers.values():  # as if it had seen the births of all outboxes
        flows = server.runtime._flows.values() if server.runtime else ()
        for box in (box for flow in flows for box in flow.outboxes.values()):
            yield Done(*where, topic, box.birth, numbers, part)
            yield Floor(*where, topic, box.birth, _ABSURD)
    yield Owner(*where, part, "liar")
    yield Took(*where, chance.getrandbits(62))
    yield Refuse(*where, chance.getrandbits(62), 0, "no")
    yield Settled(*where, chance.getrandbits(62))
    yield Held(*where, 0, (), ())
    taken = tuple(TakenFrom(name, topic, 1, _ABSURD, (_ABSURD,)) for name in _SERVERS)
    yield HandOver(*where, 1, 1, Part(None, 5, 5), b"{}", taken, ())
    yield HandOver(*where, 2, 1, Part(None, 0, INDEX_END), b"nonsense", taken, ())
    yield Work(*where, topic, birth, (), _ABSURD, (WorkItem(_ABSURD, _ABSURD - 1, low, b"x"),))
    yield Work(*where, topic, birth, (), 0, (WorkItem(1, 0, low, b"not a record"),))


@pytest.mark.parametrize("seed", range(30))
def test_a_lying_server_changes_nothing_for_the_others(seed: int) -> None:
    """The liar holds nothing; it says it has done, taken, given and seen what it has not."""
    world, chance = FlowWorld((*_SERVERS, "liar"), seed), Random(seed)
    world.kill("liar")
    world.named.discard("liar")  # takes no part in the schedule; the servers go on hearing it
    for _ in range(300):
        _step(world, chance)
        if chance.random() < 0.1:
            victim = world.servers["cloud"]  # holds all of it first: no claim to it is believed
            if victim.runtime is not None:
                for message in _lies(chance, world):
                    victim.runtime.on_message("liar", message, world.now)
                world.end_pass("cloud")
    world.uninformed = set(_SERVERS)  # at last it is taken out of the orders
    world.settle()
    _check(world)


def _moved_half(world: FlowWorld) -> Instance:
    """Hand the lower half of `first` to edge1; return its instance there, before it is settled."""
    for number in range(20):
        world.publish("cloud", "camera", f"key{number}")
    world.commit("cloud", 99)
    world.run("cloud")
    runtime = world.servers["cloud"].runtime
    assert runtime is not None
    runtime.hand_over("recording", "first", None, 0, INDEX_END // 2, "edge1", world.now)
    world.end_pass("cloud")
    world.commit("cloud", 99)
    while world.links["cloud", "edge1"]:
        world.deliver(("cloud", "edge1"))
    taker = world.servers["edge1"].runtime
    assert taker is not None
    return taker._flows["recording"].instances["first"]


def test_a_server_whose_outbox_is_ever_another_one_fills_no_table() -> None:
    world = FlowWorld(_SERVERS, 1)
    instance = _moved_half(world)
    runtime = world.servers["edge1"].runtime
    assert runtime is not None
    assert any(one.server == "cloud" for each in instance.inherited for one in each.taken)
    for birth in range(100):
        runtime.on_message("cloud", Floor("recording", 1, "first", "in", birth, 1), world.now)
    assert len(instance.taken) == 1
    assert not instance.inherited  # what the lost outbox sent never comes again


def test_a_server_that_says_it_holds_countless_parts_is_not_heard() -> None:
    world = FlowWorld((*_SERVERS, "gone"), 1)
    runtime = world.servers["cloud"].runtime
    assert runtime is not None
    runtime.hand_over("recording", "apart", None, 0, 9, "gone", world.now)
    world.settle()
    world.remove("gone")
    world.inform("cloud")
    world.now += 10.0
    world.tick("cloud")
    (wanted,) = [one for one in world.links["cloud", "edge1"] if isinstance(one, HeldWanted)]
    placed = tuple(PlacedPart(Part(None, low, low + 1), "edge1") for low in range(0, 2_000, 2))
    held = Held("recording", 1, "apart", wanted.round, placed, ())
    runtime.on_message("edge1", held, world.now)
    assert "edge1" not in runtime._orphans["recording"]._answers["apart"]
    assert runtime.not_entitled == 1
    world.settle()
    assert world.holders("apart", (), 5) == ["cloud"]


def test_hand_overs_that_are_over_leave_nothing_behind() -> None:
    world = FlowWorld(_SERVERS, 1)
    for giver, taker in (("cloud", "edge1"), ("edge1", "cloud")):
        runtime = world.servers[giver].runtime
        assert runtime is not None
        assert not runtime.hand_over("recording", "first", None, 0, 9, taker, world.now)
        world.settle()
        hand_overs = runtime._hand_overs["recording"]
        assert not hand_overs._attempts
        assert not hand_overs._unstored
        assert not hand_overs.pending


def test_a_server_that_names_countless_nets_fills_no_table() -> None:
    world = FlowWorld(_SERVERS, 1)
    runtime = world.servers["cloud"].runtime
    assert runtime is not None
    flow = runtime._flows["recording"]
    flow._finder = finder = Mock(spec_set=Finder)
    for number in range(3_000):
        about = ("recording", 1, "first", "in", 1, (f"net{number}",))
        runtime.on_message("edge1", Work(*about, 0, ()), world.now)
    assert finder.meet.call_count == 3_000
    assert len(flow._met) <= flow.settings.nets


def _always(value: object) -> Callable[..., object]:
    return lambda *_args, **_kwargs: value


_RULES: dict[str, tuple[type, str, Any]] = {
    "a number that was taken is not taken again": (TakenNumbers, "__contains__", _always(False)),
    "what was processed goes along with a part": (Instance, "all_taken", _always(())),
    "a part that is given is no longer held back in the queue": (
        Instance,
        "drop_queued",
        _always(set()),
    ),
    "a state is taken in with its part": (Instance, "_take_in", lambda _, _state, then: then(True)),
    "what waits for a hand-over is not sent before it is settled": (
        Instance,
        "unsettled",
        _always(0),
    ),
    "one waits for the message before it": (Outbox, "_before", _always(0)),
}


@pytest.mark.parametrize("rule", _RULES)
def test_without_a_rule_the_checks_fail(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = _RULES[rule]
    monkeypatch.setattr(where, name, broken)
    failed = 0
    for seed in range(200):
        world, chance = FlowWorld(_SERVERS, seed), Random(seed)
        try:
            for _ in range(300):
                _step(world, chance)
            world.settle()
            _check(world)
        except (AssertionError, KeyError, ValueError):
            failed += 1
            break
    assert failed

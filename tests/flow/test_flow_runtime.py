"""Flows that run: every message once, in order, whatever is killed when."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from nearcast.broker.requests import ProcessRequest
from nearcast.flow.flow_settings import FlowSettings
from nearcast.routing.index_mapping import content_index
from nearcast.routing.keys import INDEX_END
from nearcast.testing.flow_world import FlowWorld
from nearcast.testing.recording_processor import RECORDING

_SERVERS = ("cloud", "edge1", "edge2")
_KEYS = ("a", "b", "c", "d", "e")


def _check(world: FlowWorld) -> None:
    """All messages were processed once, in order; the state of a key is at one server."""
    _check_holders(world)
    for component in ("first", "second"):
        states = world.states(component)
        owners = Counter(key for seen in states.values() for key in seen)
        assert owners == Counter(dict.fromkeys(world.published, 1)), component
        for seen in states.values():
            for key, messages in seen.items():
                for publisher in {name for name, _ in messages}:
                    numbers = [number for name, number in messages if name == publisher]
                    sent = [n for name, n in world.published[key] if name == publisher]
                    assert numbers == sent, (component, key, publisher)
                assert len(messages) == len(world.published[key])
    total = sum(map(len, world.published.values()))
    said = Counter(publisher.split("@")[0] for publisher, _, _ in world.heard)
    assert said == dict.fromkeys(
        (f"flow:recording/{one}" for one in ("first", "second", "apart")), total
    )


def _check_holders(world: FlowWorld) -> None:
    """Each index of each net is held by one server."""
    chance = Random(0)
    for component in ("first", "second", "apart"):
        for net in _SERVERS:
            for _ in range(30):
                index = chance.randrange(INDEX_END)
                assert len(world.holders(component, (net,), index)) == 1, (component, net, index)


def _hand_over(world: FlowWorld, chance: Random) -> None:
    """Let a server give some of what it holds to another one."""
    name, to = chance.sample(sorted(world.named), 2)
    runtime = world.servers[name].runtime
    if runtime is None:
        return
    component = chance.choice(runtime.report()[0].components)
    if not component.held:
        return
    part = chance.choice(component.held)
    net, low, high = part.net, part.low, part.high
    if component.component == "apart" and net is None and chance.random() < 0.5:
        net = (chance.choice(_SERVERS),)
    if chance.random() < 0.6 and high - low > 1:
        middle = chance.randrange(low + 1, high)
        low, high = chance.choice(((low, middle), (middle, high)))
    runtime.hand_over("recording", component.component, net, low, high, to, world.now)
    world.end_pass(name)


def _step(world: FlowWorld, chance: Random, is_hosted: bool = False) -> None:
    servers = sorted(world.named)
    name = chance.choice(servers)
    match chance.randrange(21 if not is_hosted else 26):
        case 0 | 1 | 2 | 3:
            home = chance.choice(servers)
            world.publish(home, f"camera-{home}", chance.choice(_KEYS))
        case 4 | 5 | 6 | 7 | 8 | 9:
            ends = [ends for ends, messages in world.links.items() if messages]
            if ends:
                world.deliver(chance.choice(ends))
        case 10 | 11 | 12:
            world.commit(name, chance.randrange(1, 4))
        case 13 | 14 | 15:
            world.run(name)
        case 16:
            world.now += chance.random()
            world.tick(name)
        case 17:
            if chance.random() < 0.3:
                world.kill(name)
        case 18:
            if world.servers[name].runtime is None:
                world.start(name)
        case 19:
            _hand_over(world, chance)
        case 20:
            world.store(name)
            if name in world.uninformed:
                world.inform(name)
        case 21:
            if chance.random() < 0.3:
                world.end_host(name)
        case _:
            world.work(name)


_SLOW = [pytest.param(first, marks=pytest.mark.slow) for first in range(50, 200, 50)]


@pytest.mark.overlay_property(10)
@pytest.mark.overlay_property(11)
@pytest.mark.overlay_property(12)
@pytest.mark.parametrize("is_hosted", [False, True])
@pytest.mark.parametrize("first", [0, *_SLOW])
def test_nothing_is_lost_or_done_twice_over_kills_and_hand_overs(
    first: int, is_hosted: bool
) -> None:
    for seed in range(first, first + 50):
        world, chance = FlowWorld(_SERVERS, seed, is_hosted=is_hosted), Random(seed)
        for _ in range(300):
            _step(world, chance, is_hosted)
        world.settle()
        _check(world)


@pytest.mark.parametrize("is_hosted", [False, True])
@pytest.mark.parametrize("first", [0, *_SLOW])
def test_what_a_server_had_that_is_gone_is_taken_back_once(first: int, is_hosted: bool) -> None:
    for seed in range(first, first + 50):
        world = FlowWorld((*_SERVERS, "gone"), seed, is_hosted=is_hosted)
        chance = Random(seed)
        for _ in range(150):
            _step(world, chance, is_hosted)
        world.remove("gone")
        for _ in range(60):
            _step(world, chance, is_hosted)
        world.settle()
        _check_holders(world)
        earlier = {key: list(messages) for key, messages in world.published.items()}
        for number in range(30):
            world.publish(_SERVERS[number % 2], f"camera-{_SERVERS[number % 2]}", _KEYS[number % 5])
        world.settle()
        for component in ("first", "second"):
            seen = Counter(
                (key, one)
                for keys in world.states(component).values()
                for key, messages in keys.items()
                for one in messages
            )
            fresh = [
                (key, one)
                for key, messages in world.published.items()
                for one in messages[len(earlier.get(key, ())) :]
            ]
            assert [seen[one] for one in fresh] == [1] * len(fresh)


def test_a_state_that_no_channel_carries_stays_where_it_is() -> None:
    world = FlowWorld(_SERVERS, 1, FlowSettings(hand_over_bytes=10))
    for key in _KEYS:
        world.publish("cloud", "camera-cloud", key)
    world.settle()
    runtime = world.servers["cloud"].runtime
    assert runtime is not None
    reason = runtime.hand_over("recording", "first", None, 0, INDEX_END, "edge1", world.now)
    assert "too large" in reason
    world.settle()
    assert set(world.states("first")["cloud"]) == set(_KEYS)
    _check(world)


def _ends_at(*numbers: int) -> Callable[[ProcessRequest], bool]:
    """Messages of key "a" with these numbers end the process of `first`."""

    def is_deadly(request: ProcessRequest) -> bool:
        bodies = [json.loads(one.payload) for one in request.batch if one.topic == "in"]
        return request.settings.processor == RECORDING and any(
            (one["key"], one["number"]) in [("a", number) for number in numbers] for one in bodies
        )

    return is_deadly


def test_two_messages_that_end_the_process_hold_nobody_up_longer_than_they_are_tried() -> None:
    world = FlowWorld(_SERVERS, 3, is_hosted=True)
    world.publish("cloud", "camera", "b")
    world.settle()
    world.is_deadly = _ends_at(2, 3)
    began = world.now
    for key in ("b", "a", "a", "b"):  # so that the first one is in the middle of a batch
        world.publish("cloud", "camera", key)
    world.settle()
    for key in ("a", "b", "c"):  # and the second one is where a batch begins
        world.publish("cloud", "camera", key)
    world.settle()
    seen = world.states("first")["cloud"]
    assert {key: len(messages) for key, messages in seen.items()} == {"a": 1, "b": 4, "c": 1}
    assert sum(one.event == "failed" for _, one in world.incidents) == 6
    assert world.now - began < 10.0


def test_a_component_that_ends_its_process_at_every_message_rests_longer_and_longer() -> None:
    world = FlowWorld(_SERVERS, 3, is_hosted=True)
    world.publish("cloud", "camera", "b")
    world.settle()
    world.is_deadly = _ends_at(*range(1, 9))
    began = world.now
    for _ in range(8):
        world.publish("cloud", "camera", "a")
    world.publish("cloud", "camera", "b")
    world.settle()
    assert world.states("first")["cloud"].keys() == {"b"}
    rests = [one.detail for _, one in world.incidents if "rests" in one.detail]
    assert [one.rpartition("for ")[2] for one in rests][:3] == ["10 s", "20 s", "40 s"]
    assert world.now - began > 70.0


def test_a_component_that_rests_is_given_nothing() -> None:
    world = FlowWorld(_SERVERS, 3, is_hosted=True)
    world.publish("cloud", "camera", "b")
    world.settle()
    runtime = world.servers["cloud"].runtime
    assert runtime is not None
    low = content_index("a")
    assert low is not None
    assert not runtime.hand_over("recording", "first", None, low, low + 1, "edge1", world.now)
    world.settle()
    world.is_deadly = _ends_at(*range(1, 9))
    for _ in range(8):
        world.publish("cloud", "camera", "a")
    began, rests = world.now, 0
    while not rests:  # until the one at edge1 has begun to rest
        world._exhaust()
        for name in world.servers:
            world.tick(name)
        world.now += 0.1
        rests = sum("rests" in one.detail for _, one in world.incidents)
        assert world.now < began + 60.0
    high = content_index("b")
    assert high is not None
    assert not runtime.hand_over("recording", "first", None, high, high + 1, "edge1", world.now)
    world.publish("cloud", "camera", "b")
    world._exhaust()
    assert world.holders("first", ("cloud",), high) == ["cloud"]
    said = [one.detail for name, one in world.incidents if one.event == "taken back"]
    assert "its processor rests" in said[0]
    assert len(world.states("first")["cloud"]["b"]) == 2


def test_messages_that_wait_because_the_process_ended_are_no_overload() -> None:
    world = FlowWorld(_SERVERS, 3, is_hosted=True)
    world.publish("cloud", "camera", "b")
    world.settle()
    runtime, host = world.servers["cloud"].runtime, world.servers["cloud"].host
    assert runtime is not None

    def longest_wait_s() -> float:
        return max(one.queue_age_s for one in runtime.take_loads() if one.component == "first")

    world.is_deadly = _ends_at(1)
    for _ in range(8):
        world.publish("cloud", "camera", "a")
        world.commit("cloud", 99)
        world.run("cloud")
        world.run("cloud")
    world.now += 3.0
    assert longest_wait_s() == 3.0
    while not host.deaths:
        world.work("cloud")
    assert longest_wait_s() == 0.0
    world.settle()
    assert len(world.states("first")["cloud"]["a"]) == 7

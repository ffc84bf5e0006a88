"""A giver or taker that dies at any step of a hand-over: one of the two has the part, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flow.test_flow_runtime import _check
from nearcast.experiments.flows.step_kills import GIVER_STEPS, TAKER_STEPS
from nearcast.flow.messages import FlowMessage
from nearcast.routing.keys import INDEX_END
from nearcast.testing.flow_world import FlowWorld

_GIVER, _TAKER = "cloud", "edge1"
_SENDERS = {"HandOver": _GIVER, "Took": _TAKER, "Settled": _GIVER}


def _publish(world: FlowWorld, count: int) -> None:
    for number in range(count):
        home = ("cloud", "edge1", "edge2")[number % 3]
        world.publish(home, f"camera-{home}", "abcde"[number % 5])


def _begin(world: FlowWorld) -> None:
    """Have the lower half of the first component handed over."""
    runtime = world.servers[_GIVER].runtime
    assert runtime is not None
    problem = runtime.hand_over("recording", "first", None, 0, INDEX_END // 2, _TAKER, world.now)
    assert not problem
    world.end_pass(_GIVER)


def _events(world: FlowWorld) -> Iterator[Callable[[], None]]:
    """Return what may happen next, one thing at each server and link."""
    for ends, messages in list(world.links.items()):
        if messages:
            yield lambda ends=ends: world.deliver(ends)  # type: ignore[misc]
    for name in world.servers:
        yield lambda name=name: world.commit(name, 1)  # type: ignore[misc]
        yield lambda name=name: world.work(name)  # type: ignore[misc]
        yield lambda name=name: world.run(name)  # type: ignore[misc]
        yield lambda name=name: world.tick(name)  # type: ignore[misc]


def _run_until(world: FlowWorld, has_come: Callable[[], bool]) -> None:
    for _ in range(300):
        for event in _events(world):
            if has_come():
                return
            event()
        world.now += 0.01
    raise AssertionError("the step does not come")


def _die_at(world: FlowWorld, step: str) -> None:
    """Let a hand-over go on to a step at which its giver or its taker dies."""
    when, way, kind = step.split(" ")
    victim = _GIVER if step in GIVER_STEPS else _TAKER
    if kind == "MovePart":
        if when == "after":
            _begin(world)
        world.kill(victim)
        return
    _begin(world)
    sender = _SENDERS[kind]
    link = world.links[sender, _TAKER if sender == _GIVER else _GIVER]

    def is_next() -> bool:
        return bool(link) and _kind(link[0]) == kind

    def is_sent() -> bool:
        return any(_kind(one) == kind for one in link)

    _run_until(world, is_sent if (when, way) == ("before", "send") else is_next)
    if when == "after":
        world.deliver((sender, _TAKER if sender == _GIVER else _GIVER))
    world.kill(victim)


def _kind(message: FlowMessage) -> str:
    return type(message).__name__


@pytest.mark.parametrize("is_hosted", [False, True])
@pytest.mark.parametrize("step", GIVER_STEPS + TAKER_STEPS)
def test_one_of_the_two_has_the_part_and_nothing_is_lost(step: str, is_hosted: bool) -> None:
    for seed in range(5):  # what of its log the victim has written is chance
        world = FlowWorld(("cloud", "edge1", "edge2"), seed, is_hosted=is_hosted)
        _publish(world, 20)
        if seed % 2:
            world.settle()  # else messages are under way
        _publish(world, 5)
        _die_at(world, step)
        _publish(world, 10)
        world.settle()
        _check(world)
        assert len(world.holders("first", (_TAKER,), 0)) == 1

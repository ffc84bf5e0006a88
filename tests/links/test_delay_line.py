"""The delay line on both loops, and its order against a sorted list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
import uvloop

from nearcast.links import delay_line, fine_timer
from nearcast.links.delay_line import DelayLine


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    return asyncio.run if request.param == "asyncio" else uvloop.run


class HandTimer:
    """A timer that a test fires."""

    def __init__(self) -> None:
        self.due_s: float | None = None

    def set(self, due_s: float) -> None:
        self.due_s = due_s

    def close(self) -> None:
        self.due_s = None


@pytest.mark.parametrize("has_kernel_timer", [True, False])
def test_what_waits_comes_in_the_order_of_its_due_time(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch, *, has_kernel_timer: bool
) -> None:
    if not has_kernel_timer:
        monkeypatch.setattr(fine_timer, "_KernelTimer", fine_timer._LoopTimer)

    async def main() -> None:
        got: list[str] = []
        done = asyncio.Event()

        def deliver(items: list[str]) -> None:
            got.extend(items)
            if len(got) == 3:
                done.set()

        line = DelayLine[str](asyncio.get_running_loop(), deliver)
        line.push("late", 0.03)
        line.push("early", 0.01)
        line.push("at once", 0.0)
        assert got == ["at once"]
        assert len(line) == 2
        await done.wait()
        assert got == ["at once", "early", "late"]
        line.close()

    run(main())


def test_order_ties_and_bursts_are_those_of_a_stable_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    timer, now = HandTimer(), [0.0]
    monkeypatch.setattr(delay_line, "make_timer", lambda _loop, _back: timer)
    monkeypatch.setattr("nearcast.links.delay_line.time.monotonic", lambda: now[0])
    rng = Random(5)
    calls: list[tuple[float, list[int]]] = []
    loop = asyncio.new_event_loop()
    line = DelayLine[int](loop, lambda items: calls.append((now[0], items)))
    expected: list[tuple[float, int]] = []
    for number in range(500):
        delay_s = rng.choice((0.0, 1.0, 2.0, 5.0))
        expected.append((now[0] + delay_s, number))
        line.push(number, delay_s)
        if rng.random() < 0.3:
            now[0] += 1.0
            if timer.due_s is not None and timer.due_s <= now[0]:
                line._on_timer()
    now[0] += 10.0
    line._on_timer()
    loop.close()
    assert [item for _, items in calls for item in items] == [n for _, n in sorted(expected)]
    due_s = {number: due for due, number in expected}
    assert all(at == due_s[item] or at > now[0] - 10 for at, items in calls for item in items)
    assert all(before <= after for (before, _), (after, _) in pairwise(calls))


def test_what_waits_is_forgotten_when_the_line_closes(run: Callable[..., None]) -> None:
    async def main() -> None:
        got: list[list[int]] = []
        loop = asyncio.get_running_loop()
        line, other = DelayLine[int](loop, got.append), asyncio.Event()
        line.push(1, 0.001)
        line.close()
        line.close()
        mark = DelayLine[int](loop, lambda _items: other.set())
        mark.push(1, 0.005)
        await other.wait()
        assert got == []
        mark.close()

    run(main())

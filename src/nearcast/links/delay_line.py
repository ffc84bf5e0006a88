"""A line that lets things through after a while: distances on one machine."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from nearcast.links.fine_timer import make_timer

__all__ = ["DelayLine"]

T = TypeVar("T")


class DelayLine(Generic[T]):
    """Delivers items in the order of their due times, ties in the order of `push`.

    Parameters
    ----------
    loop
        Where `deliver` is called.
    deliver
        Gets all items that are due, at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[list[T]], None]) -> None:
        self._deliver = deliver
        self._timer = make_timer(loop, self._on_timer)
        self._waiting: list[tuple[float, int, T]] = []
        self._pushed = 0
        self._armed_s = float("inf")

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._waiting)

    def push(self, item: T, delay_s: float) -> None:
        """Deliver an item after this time; without a delay at once, before this returns."""
        now = time.monotonic()
        self._pushed += 1
        heapq.heappush(self._waiting, (now + max(0.0, delay_s), self._pushed, item))
        if delay_s <= 0:
            self._deliver_until(now)
        self._arm()

    def close(self) -> None:
        """Forget what still waits."""
        self._waiting.clear()
        self._timer.close()

    def _on_timer(self) -> None:
        self._armed_s = float("inf")
        self._deliver_until(time.monotonic())
        self._arm()

    def _deliver_until(self, now: float) -> None:
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(heapq.heappop(self._waiting)[2])
        if due:
            self._deliver(due)

    def _arm(self) -> None:
        if self._waiting and self._waiting[0][0] < self._armed_s:
            self._armed_s = self._waiting[0][0]
            self._timer.set(self._armed_s)

"""The clock of a process: Unix time that never runs backwards."""

from __future__ import annotations

import time

__all__ = ["SteadyClock", "steady_now"]

_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts on while the machine sleeps, where the system has such a clock: who was away for an hour
has to know it."""


class SteadyClock:
    """The wall clock at the start plus what a counter of seconds counted since.

    The wall clock may be wrong and may be set meanwhile: only times that are shown rest on it.
    """

    def __init__(self) -> None:
        # a thread switch between two readings would put two processes' clocks apart
        readings = (_offset_reading() for _ in range(5))
        self._offset_s = min(readings)[1]

    def __call__(self) -> float:
        """Return the time now."""
        return self._offset_s + time.clock_gettime(_COUNTER)


def _offset_reading() -> tuple[float, float]:
    before = time.clock_gettime(_COUNTER)
    wall = time.time()
    after = time.clock_gettime(_COUNTER)
    return after - before, wall - (before + after) / 2


steady_now = SteadyClock()
"""The clock of all clients of a process."""

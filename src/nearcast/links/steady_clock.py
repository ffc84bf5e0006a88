"""The clock of a process: Unix time that never runs backwards."""

from __future__ import annotations

import time

__all__ = ["SteadyClock", "steady_now"]


class SteadyClock:
    """The wall clock at the start plus what the monotonic clock counted since, in seconds."""

    def __init__(self) -> None:
        # a thread switch between two readings would put two processes' clocks apart
        readings = (_offset_reading() for _ in range(5))
        self._offset_s = min(readings)[1]

    def __call__(self) -> float:
        """Return the time now."""
        return self._offset_s + time.monotonic()


def _offset_reading() -> tuple[float, float]:
    before = time.monotonic()
    wall = time.time()
    after = time.monotonic()
    return after - before, wall - (before + after) / 2


steady_now = SteadyClock()
"""The clock of all clients of a process."""

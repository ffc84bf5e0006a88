"""When a search ends: the one place in planning that looks at a clock."""

from __future__ import annotations

import time

__all__ = ["Stopwatch"]


class Stopwatch:
    """Counts the seconds since it was made and knows a limit."""

    def __init__(self, limit_s: float | None = None) -> None:
        self.limit_s = limit_s
        self._begin_s = time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._begin_s

    def left_s(self) -> float:
        """Return the seconds left; infinite without a limit."""
        return float("inf") if self.limit_s is None else self.limit_s - self.seconds()

    def expired(self) -> bool:
        """Return whether the limit is reached."""
        return self.left_s() <= 0

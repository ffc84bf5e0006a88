"""The clock of one machine: wrong by an offset and a rate, and it may be set."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter

__all__ = ["MachineClock"]


class MachineClock:
    """Wall clock and steady clock of a machine, from the true time.

    A process reads the wall clock when it starts and then counts (`begin`, `read`), as
    `links.steady_clock` does: a jump shows at the next start only.
    """

    def __init__(self, true_now: Callable[[], float], offset_s: float = 0.0) -> None:
        self._true_now, self._offset_s = true_now, offset_s
        self.rate = 1.0
        """Seconds that it counts per true second."""
        self._began = self._base = 0.0
        self.begin()

    def begin(self) -> None:
        """Read the wall clock: a process starts."""
        self._began = self._true_now()
        self._base = self._began + self._offset_s

    def jump(self, seconds: float) -> None:
        """Set the wall clock; running processes do not notice."""
        self._offset_s += seconds

    def run_at(self, rate: float) -> None:
        """Let it count so many seconds per true second from now on."""
        self._base, self._began, self.rate = self.read(), self._true_now(), rate

    def read(self) -> float:
        """Return the time as the process on this machine knows it."""
        return self._base + (self._true_now() - self._began) * self.rate

    def true_time(self, when: float) -> float:
        """Return the true time at which `read` will say `when`, never a moment too early."""
        return nextafter(self._began + (when - self._base) / self.rate, inf)

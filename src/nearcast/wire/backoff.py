"""How long to wait before the next try: exponential, with jitter, up to a limit."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """Delays between tries of one thing.

    Parameters
    ----------
    first_s, longest_s
        The delay after the first failure, and the one that is never exceeded.
    factor
        Each delay is longer than the one before by it.
    jitter
        The part of a delay that chance may take away, 0 to 1, so that many that failed together
        do not come back together.
    random
        Returns a number from 0 to 1; needed where there is jitter.
    """

    __slots__ = ("_delay_s", "_factor", "_first_s", "_jitter", "_longest_s", "_random")

    def __init__(
        self,
        first_s: float,
        longest_s: float,
        *,
        factor: float = 2.0,
        jitter: float = 0.0,
        random: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._first_s = self._delay_s = min(first_s, longest_s)
        self._longest_s, self._factor = longest_s, factor
        self._jitter, self._random = jitter, random

    def next_s(self) -> float:
        """Return how long to wait after another failure."""
        delay_s = self._delay_s
        self._delay_s = min(delay_s * self._factor, self._longest_s)
        return delay_s * (1.0 - self._jitter * self._random())

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._delay_s = self._first_s

"""How long hand-overs took, for the operators' events."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["HandOverTimes"]

_MOST = 1_000
"""Hand-overs that are remembered; those that come to nothing are not told."""


class HandOverTimes:
    """Times hand-overs by their numbers; of those from before a restart nothing is known.

    Parameters
    ----------
    clock
        The time now, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked_s: dict[int, float] = {}
        self._held_s: dict[int, tuple[float, float | None]] = {}
        """From when until when nobody processed a part."""

    def begin(self, number: int, asked_s: float) -> None:
        """Note that a part is not processed here from now on; `asked_s`: when it was to be given."""
        self._put(number, asked_s)
        self._held_s[number] = (self._clock(), None)

    def arrive(self, number: int) -> None:
        """Note that a part came that is to be taken."""
        self._put(number, self._clock())

    def end_hold_up(self, number: int) -> None:
        """Note that a part is processed again elsewhere."""
        since_s, until_s = self._held_s.get(number, (0.0, 0.0))
        if until_s is None:
            self._held_s[number] = (since_s, self._clock())

    def tell(self, number: int) -> str:
        """Return how long it took, to be put after what happened; forget it."""
        asked_s, held_s = self._asked_s.pop(number, None), self._held_s.pop(number, None)
        if asked_s is None:
            return ""
        now = self._clock()
        said = f", {1e3 * (now - asked_s):.0f} ms in all"
        if held_s is None:
            return said
        since_s, until_s = held_s
        return f", held up {1e3 * ((until_s or now) - since_s):.0f} ms{said}"

    def _put(self, number: int, asked_s: float) -> None:
        if len(self._asked_s) >= _MOST:
            oldest = next(iter(self._asked_s))
            del self._asked_s[oldest]
            self._held_s.pop(oldest, None)
        self._asked_s[number] = asked_s

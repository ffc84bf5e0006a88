"""How far another clock is ahead of one's own, learned from questions and answers."""

from __future__ import annotations

__all__ = ["ClockDifference"]

_NEVER = float("inf")
_LATEST_S = float(1 << 33)
"""In the 23rd century: a clock that shows more is not believed."""
_PASS_S = 0.001
"""Clocks are read once a pass, which may have begun that much before a question came."""


class ClockDifference:
    """Between what limits the difference lies; a shorter way of an answer makes them narrower.

    The other clock was read after the question left and before its answer came. While 0 lies
    between the limits, both clocks may be right, and agree better than any answer can tell.
    """

    __slots__ = ("_least_s", "_most_s", "ahead_s", "ahead_us")

    def __init__(self) -> None:
        self._least_s, self._most_s = -_NEVER, _NEVER
        self.ahead_s, self.ahead_us = 0.0, 0
        """To be added to a time of one's own clock."""

    def learn(self, asked_at: float, told_s: float, now: float) -> None:
        """Take what the other clock showed, between a question and its answer."""
        if not (0.0 <= told_s <= _LATEST_S and asked_at <= now):
            return
        least_s, most_s = told_s - now, told_s - asked_at + _PASS_S
        if least_s <= self._most_s and self._least_s <= most_s:
            least_s, most_s = max(least_s, self._least_s), min(most_s, self._most_s)
        self._least_s, self._most_s = least_s, most_s  # else a clock has drifted, or started anew
        self.ahead_s = 0.0 if least_s <= 0.0 <= most_s else (least_s + most_s) / 2
        self.ahead_us = round(self.ahead_s * 1e6)

    def there_us(self, at_s: float) -> int:
        """Return what the other clock shows, in microseconds, when one's own shows this."""
        return max(0, int(at_s * 1e6) + self.ahead_us)

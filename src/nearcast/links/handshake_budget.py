"""A limit on handshakes, so that unknown peers cannot use up a server's time and memory."""

from __future__ import annotations

__all__ = ["HandshakeBudget"]


class HandshakeBudget:
    """Limits handshakes under way and handshakes per second.

    Parameters
    ----------
    open_limit
        Handshakes under way at a time.
    per_s, burst
        Rate of new ones, and how many may come at once.
    """

    def __init__(self, open_limit: int, per_s: float, burst: float) -> None:
        self._open_limit, self._per_s, self._burst = open_limit, per_s, burst
        self._open, self._tokens, self._filled_at = 0, burst, 0.0

    def begin(self, now: float) -> bool:
        """Take a place for another handshake; False when there is no room for it."""
        self._tokens = min(self._burst, self._tokens + self._per_s * (now - self._filled_at))
        self._filled_at = now
        if self._open >= self._open_limit or self._tokens < 1.0:
            return False
        self._open += 1
        self._tokens -= 1.0
        return True

    def end(self) -> None:
        """Give the place back, once for each `begin` that was granted."""
        self._open -= 1

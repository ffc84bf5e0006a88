"""Whole spools that other brokers get: those that are new, began anew, or lost something.

Each server has an allowance of bytes. Who asks for more gets it later, once for each topic.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.effects import Effects

__all__ = ["SpoolShares"]

_BURST_BYTES = 64 << 20
"""What waits for a server at most, too: more at once would be dropped."""
_BYTES_PER_S = 4 << 20
_LEAST_BYTES = 16 << 10
"""What a spool costs that has little in it."""

Share = tuple[str, str]
"""Server and topic."""


class SpoolShares:
    """Who gets which spool, and when.

    Parameters
    ----------
    size_bytes
        Returns how much a topic's spool has; None when it is not for this server.
    """

    def __init__(self, effects: Effects, size_bytes: Callable[[str, str], int | None]) -> None:
        self._effects, self._size_bytes = effects, size_bytes
        self._waiting: dict[Share, bool] = {}
        """Those that wait: whether as bulk."""
        self._credits: dict[str, tuple[float, float]] = {}
        """By server: bytes left, and when that was so."""
        self._ready_at = float("inf")

    def ask(self, server: str, topic: str, *, bulk: bool) -> None:
        """Have a server get a spool; what it needs before anything else is not bulk."""
        key = (server, topic)
        self._waiting[key] = bulk and self._waiting.get(key, True)

    def take(self, now: float) -> list[tuple[str, str, bool]]:
        """Return which servers get which spools now, and whether as bulk."""
        found: list[tuple[str, str, bool]] = []
        if not self._waiting:
            return found
        waiting, self._waiting, self._ready_at = self._waiting, {}, float("inf")
        for (server, topic), bulk in waiting.items():
            size_bytes = self._size_bytes(server, topic)
            if size_bytes is None:
                continue
            credit = self._credit(server, now)
            if credit <= 0:
                self._waiting[server, topic] = bulk
                self._ready_at = min(self._ready_at, now + (1 - credit) / _BYTES_PER_S)
                self._effects.counts["shares_put_off"] += 1
                continue
            self._credits[server] = (credit - max(size_bytes, _LEAST_BYTES), now)
            found.append((server, topic, bulk))
        return found

    def next_wakeup(self) -> float:
        """Return when one that was put off may go."""
        return self._ready_at

    def forget(self, servers: frozenset[str]) -> None:
        """Forget all but these servers."""
        self._credits = {one: left for one, left in self._credits.items() if one in servers}

    def _credit(self, server: str, now: float) -> float:
        left, since = self._credits.get(server, (float(_BURST_BYTES), now))
        return min(_BURST_BYTES, left + max(0.0, now - since) * _BYTES_PER_S)

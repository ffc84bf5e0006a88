"""Copies from servers of which this one does not know that they are brokers of the topic.

Such a server may have newer orders than this one: what it sends waits until orders or a Manages
say that it is a broker, for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.broker_messages import Copies
from nearcast.server.effects import Effects

__all__ = ["EarlyCopies"]

_WAIT_S = 10.0
_LIMIT_BYTES = 4 << 20


class EarlyCopies:
    """Messages in the order in which they came; the oldest go first when there are too many."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._waiting: list[tuple[float, str, Copies]] = []
        self._size_bytes = 0
        tables = effects.tables
        self._limit_bytes = tables.add("early_copies_bytes", _LIMIT_BYTES, lambda: self._size_bytes)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def keep(self, server: str, message: Copies, now: float) -> None:
        """Let a message wait."""
        self._waiting.append((now, server, message))
        self._size_bytes += _size_bytes(message)
        while self._size_bytes > self._limit_bytes or self._is_over(now):
            _, _, oldest = self._waiting.pop(0)
            self._size_bytes -= _size_bytes(oldest)
            self._effects.counts["copies_not_expected"] += len(oldest.records)

    def take(self, is_broker: Callable[[str, str], bool], now: float) -> list[tuple[str, Copies]]:
        """Return the messages whose senders are brokers now, by server and topic."""
        waiting, self._waiting, self._size_bytes = self._waiting, [], 0
        found = []
        for since, server, message in waiting:
            if is_broker(server, message.topic):
                found.append((server, message))
            else:
                self._waiting.append((since, server, message))
                self._size_bytes += _size_bytes(message)
        return found

    def _is_over(self, now: float) -> bool:
        return bool(self._waiting) and now - self._waiting[0][0] > _WAIT_S


def _size_bytes(message: Copies) -> int:
    return sum(map(len, message.records))

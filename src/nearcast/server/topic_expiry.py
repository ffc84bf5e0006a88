"""Finds topics that nobody uses: no orders, no subscribers, nothing published for a while."""

from __future__ import annotations

from collections.abc import Callable

from nearcast.broker.broker import Broker

__all__ = ["TopicExpiry"]

_LOOKS = 60
"""How often one looks during the time that a topic may be idle."""


class TopicExpiry:
    """Looks at the topics of a broker now and then; a publication costs nothing for it.

    Parameters
    ----------
    is_wanted
        Tells whether a topic has to stay, used or not.
    idle_s
        How long a topic may be unused.
    """

    def __init__(self, broker: Broker, is_wanted: Callable[[str], bool], idle_s: float) -> None:
        self._broker, self._is_wanted, self._idle_s = broker, is_wanted, idle_s
        self._look_at = float("-inf")
        self._seen: dict[str, tuple[int, float]] = {}
        """By topic: messages ever spooled, and since when there are no more and nobody wants it."""

    def take_idle(self, now: float) -> list[str]:
        """Return the topics whose time is over."""
        if now < self._look_at:
            return []
        self._look_at = now + self._idle_s / _LOOKS
        before, self._seen = self._seen, {}
        idle = []
        for topic, managed in self._broker.topics.items():
            total = managed.spool.total
            if managed.waiting or managed.durable_end < managed.end or self._is_wanted(topic):
                continue
            known_total, since = before.get(topic, (-1, now))
            if known_total != total:
                since = now
            if now - since >= self._idle_s:
                idle.append(topic)
            else:
                self._seen[topic] = (total, since)
        return idle

    def next_wakeup(self) -> float:
        """Return when to look again."""
        return self._look_at

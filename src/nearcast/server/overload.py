"""Whom a server that falls behind sends back: those who send most, or all where nobody does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from nearcast.server.effects import Effects
from nearcast.server.server_settings import EdgeSettings
from nearcast.wire.actions import ServerEvent
from nearcast.wire.publication import Origin, Publication
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["Overload", "busiest"]

_REMEMBERED = 1_024
"""Publications; beyond it the older half counts less."""


class Overload:
    """Whether datagrams of clients wait too long, and have for a while."""

    def __init__(
        self,
        settings: EdgeSettings,
        sessions: ServerSessions,
        effects: Effects,
        retry_after_s: float,
    ) -> None:
        self._settings, self._retry_after_s = settings, retry_after_s
        self._sessions, self._effects = sessions, effects
        self.has_queue, self._queue_since = False, float("-inf")
        """Whether the last datagrams had waited too long, and since when."""
        self._sent: Counter[str] = Counter()
        """Publications that came since then, by publisher; of old ones a part."""
        self._told: set[tuple[str, str]] = set()
        """Publishers and topics that were told to wait in this pass."""

    def begin_pass(self) -> None:
        """Begin a pass in which publications are put off: each publisher hears so once a topic."""
        self._told.clear()

    def is_late(self, queue_age_s: float, now: float) -> bool:
        """Tell whether publishers have to wait, after the next datagrams have waited so long."""
        if queue_age_s <= self._settings.queue_age_s:
            self.has_queue = False
            self._sent.clear()
        elif not self.has_queue:
            self.has_queue, self._queue_since = True, now
        return self.has_queue and now - self._queue_since > self._settings.queue_patience_s

    def heavy(self, events: Iterable[ServerEvent]) -> frozenset[str]:
        """Return those who send most, now that events are late: nobody where all are alike."""
        self._sent.update(one.publisher for one in events if type(one) is Publication)
        if self._sent.total() > _REMEMBERED:
            halves = {one: count // 2 for one, count in self._sent.items() if count > 1}
            self._sent = Counter(halves)
        return busiest(self._sent)

    def puts_off(self, publication: Publication, heavy: frozenset[str]) -> bool:
        """Send a publication back, if its client is one of those who send most; tell if so.

        Parameters
        ----------
        heavy
            Those who send most. Without any all are sent back, but what nobody would repeat.
        """
        client = publication.publisher
        if heavy and client not in heavy:
            return False
        if publication.origin is not Origin.ONCE:
            self._effects.counts["busy"] += 1
            if (client, publication.topic) not in self._told:
                self._told.add((client, publication.topic))
                self._sessions.busy(client, self._retry_after_s, publication.topic)
            return True
        self._effects.counts["overload_dropped"] += bool(heavy)
        return bool(heavy)


def busiest(sent: Mapping[str, int]) -> frozenset[str]:
    """Return the publishers that cause the load: each above the mean, together at least half.

    Nobody is such a one where all send about as much.
    """
    total = sum(sent.values())
    found = frozenset(one for one, count in sent.items() if count * len(sent) > total)
    return found if 2 * sum(sent[one] for one in found) >= total else frozenset()

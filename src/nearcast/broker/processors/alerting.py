"""The event broker of one topic outside a server: publications in, what subscribers are told out.

A consumer of Kafka and a Spark stage use it. It runs the processor `events` of live servers, so that
equal publications in equal order are the same alerts everywhere.
"""

from __future__ import annotations

from collections import deque

from nearcast.broker.notifications import AllSubscribers, Notification
from nearcast.broker.processors.events import Events
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["TopicAlerts"]


class TopicAlerts:
    """What the processor of a topic remembers, without a spool beside it."""

    def __init__(self, events: Events) -> None:
        self._events, self._count = events, 0

    @property
    def malformed(self) -> int:
        """Messages that are no report and no query."""
        return self._events.malformed

    def take(self, publication: Publication) -> list[Notification]:
        """Return the alerts that a publication causes; answers to questions are left out."""
        self._count += 1
        nothing_kept = SpoolView(deque(), self._count, self._count)
        told = self._events.process([publication], nothing_kept)
        # who caused an alert is told by a notification of its own, which says the same
        return [one for one in told if isinstance(one.audience, AllSubscribers)]

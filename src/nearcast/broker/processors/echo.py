"""Returns every message to its publisher, if it subscribes: for measuring round trips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearcast.broker.notifications import NamedClients, Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["Echo"]


class Echo:
    """Sends messages back where they came from."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return a notification per message, for its publisher alone."""
        for message in batch:
            yield Notification(message.payload, NamedClients((message.publisher,)), message)

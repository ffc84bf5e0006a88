"""Plain publish/subscribe: every message goes to all subscribers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["Forward"]


class Forward:
    """Notifies all other subscribers of each message, as it is."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return one notification per message."""
        for message in batch:
            yield Notification(message.payload, cause=message)

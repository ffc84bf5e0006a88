"""The computation of this bench as a message processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nearcast.broker.notifications import Notification
from nearcast.experiments.latency.window import Window

__all__ = ["RECENT", "Recent"]

RECENT = "nearcast.experiments.latency.processor:Recent"
"""The name of this processor in a site's configuration."""


class Recent:
    """Tells all subscribers about each message, beside figures of the last messages."""

    def __init__(self) -> None:
        self._window = Window()

    def process(self, batch: Sequence[Any], spool: object) -> Iterator[Notification]:
        """Return one notification per message."""
        for message in batch:
            yield Notification(self._window.add(message.payload), cause=message)

"""A processor that works on consumer messages, so that a modest load saturates a server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from nearcast.broker.notifications import Notification

__all__ = ["LOAD", "WORK", "Work"]

WORK = "nearcast.experiments.deadlines.work:Work"
"""The name of this processor in a site's configuration."""
LOAD = b"load"
"""How the payload of a message begins that is worked on."""
_WORK_S = 0.0005
"""Much, so that few messages do: the process that sends them keeps its pace whatever the server
does, and so both ways have the same load."""


class Work:
    """Tells all subscribers about each message, after some work on those of the load."""

    def process(self, batch: Sequence[Any], spool: object) -> Iterator[Notification]:
        """Return one notification per message."""
        for message in batch:
            if message.payload.startswith(LOAD):
                until_s = time.perf_counter() + _WORK_S
                while time.perf_counter() < until_s:
                    pass
            yield Notification(message.payload, cause=message)

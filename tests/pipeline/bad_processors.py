"""Processors that do what a message tells them to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["Moody"]


class Moody:
    """Numbers what it gets; raises, hangs and swallows what stops it on request."""

    def __init__(self) -> None:
        self._count = 0

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        for message in batch:
            if message.payload == b"raise":
                raise ValueError("as told")
            while message.payload == b"hang":
                pass
            self._count += 1
            yield Notification(b"%d of %d" % (self._count, len(spool)), cause=message)
            if message.payload == b"twice":
                yield Notification(b"again", cause=message)

    def state(self) -> bytes:
        return b"%d" % self._count

    def restore(self, state: bytes) -> None:
        self._count = int(state)

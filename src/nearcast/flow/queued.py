"""Messages that wait for an instance's processor."""

from __future__ import annotations

from typing import NamedTuple

from nearcast.routing.keys import NetPath
from nearcast.wire.publication import Publication

__all__ = ["Queued", "Source"]


class Source(NamedTuple):
    """An outbox that messages come from."""

    server: str
    topic: str
    birth: int


class Queued(NamedTuple):
    """A message that waits for the processor."""

    source: Source
    number: int
    net: NetPath
    index: int  # type: ignore[assignment]  # no queue needs tuple.index
    publication: Publication
    since_s: float
    """When it came."""

    @property
    def key(self) -> tuple[Source, int]:
        """What it is known by."""
        return self.source, self.number

"""Publications that are held until their publisher has proved that it is where they come from."""

from __future__ import annotations

from collections import OrderedDict

from nearcast.server.effects import Effects
from nearcast.wire.publication import Publication

__all__ = ["UnprovedPublications"]

_LIMIT = 2_000
_PUBLISHER_LIMIT = 64
_HELD_S = 10.0


class UnprovedPublications:
    """By home and publisher; what has to be repeated comes again by itself."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._held: OrderedDict[tuple[str, str], list[tuple[Publication, int]]] = OrderedDict()
        self._count = 0
        self._limit = effects.tables.add("unproved_publications", _LIMIT, lambda: self._count)

    def hold(self, publication: Publication, home: str, version: int) -> None:
        """Keep a publication, with the version that its home goes by; the oldest make room."""
        held = self._held.setdefault((home, publication.publisher), [])
        if len(held) < _PUBLISHER_LIMIT:
            held.append((publication, version))
            self._count += 1
        else:
            self._effects.counts["unproved_dropped"] += 1
        while self._count > self._limit:
            _, dropped = self._held.popitem(last=False)
            self._count -= len(dropped)
            self._effects.counts["unproved_dropped"] += len(dropped)

    def take(self, home: str, publisher: str, now: float) -> list[tuple[Publication, int]]:
        """Return what was held of a publisher that is at a home, unless it is too old."""
        held = self._held.pop((home, publisher), [])
        self._count -= len(held)
        since_us = int((now - _HELD_S) * 1e6)
        found = [one for one in held if one[0].arrived_us >= since_us]
        self._effects.counts["unproved_dropped"] += len(held) - len(found)
        return found

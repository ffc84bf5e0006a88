"""What was delivered lately, so that it is not delivered twice."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Seen"]


class Seen:
    """The last few things that were seen; the oldest are forgotten."""

    __slots__ = ("_limit", "_things")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._things: dict[Hashable, None] = {}

    def is_new(self, thing: Hashable) -> bool:
        """Return whether a thing was not seen lately; it is from now on."""
        if thing in self._things:
            return False
        if len(self._things) >= self._limit:
            del self._things[next(iter(self._things))]
        self._things[thing] = None
        return True

"""Which ranges of a topic's indexes a component has in one net, and by which keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearcast.routing.keys import Key

__all__ = ["Holding", "Holdings"]


@dataclass(slots=True)
class Holding:
    """A range and the key at its lower end."""

    low: int
    high: int
    key: Key
    is_in: bool = False
    is_offered: bool = False
    """A replica is about to take it."""


class Holdings:
    """The ranges of one component in one net, rising and without overlap."""

    def __init__(self) -> None:
        self._ranges: list[Holding] = []

    def __iter__(self) -> Iterator[Holding]:
        return iter(tuple(self._ranges))

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, holding: Holding) -> None:
        """Take a range; the caller knows that nobody else here has a part of it."""
        self._ranges.append(holding)
        self._ranges.sort(key=lambda one: one.low)

    def remove(self, holding: Holding) -> None:
        """Give up a range."""
        self._ranges.remove(holding)

    def find(self, index: int) -> Holding | None:
        """Return the range that an index lies in."""
        return next((one for one in self._ranges if one.low <= index < one.high), None)

    def of_key(self, key: Key) -> Holding | None:
        """Return the range of a key."""
        return next((one for one in self._ranges if one.key == key), None)

    def coalesce(self) -> list[Key]:
        """Join ranges that meet, and return the keys between them, which are superfluous now.

        Deviation: the paper drops the key at the split point whenever a replica ends. If that is
        not the next key after the replica's, others would get what lies behind it.
        """
        dropped: list[Key] = []
        joined: list[Holding] = []
        for one in self._ranges:
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.high == one.low
                and last.is_in
                and one.is_in
                and not last.is_offered
                and not one.is_offered
            ):
                last.high = one.high
                dropped.append(one.key)
            else:
                joined.append(one)
        self._ranges = joined
        return dropped

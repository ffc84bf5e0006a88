"""The tables of a server that clients or other servers can fill: how large they are and may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["TableSize", "Tables"]


class TableSize(NamedTuple):
    """Entries of a table, and how many it takes; beyond that the oldest go, or new ones."""

    entries: int
    limit: int


class Tables:
    """Parts add their tables, operators see them.

    Parameters
    ----------
    factor
        How large the tables may be, in relation to what they are by default.
    """

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor
        self._tables: dict[str, tuple[Callable[[], int], int]] = {}

    def add(self, name: str, limit: int, count: Callable[[], int]) -> int:
        """Add a table; return how many entries it may have."""
        scaled = max(1, round(limit * self._factor))
        self._tables[name] = (count, scaled)
        return scaled

    def sizes(self) -> dict[str, TableSize]:
        """Return all tables by name, as they are now."""
        return {name: TableSize(count(), limit) for name, (count, limit) in self._tables.items()}

"""How many clients each server has by one plan, counted in slices while clients go on enrolling."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["ClientCounts", "SavedClient"]

_ROWS_AT_ONCE = 5_000


class SavedClient(NamedTuple):
    """An enrolled client that was written, and what was there before."""

    client: str
    home: str
    last_row: int | None
    """None when it is new."""
    last_home: str


class ClientCounts:
    """The clients of a plan, and those that are enrolled besides, by home."""

    def __init__(self, database: sqlite3.Connection, plan: int) -> None:
        self._database, self.plan = database, plan
        self.taken: Counter[str] = Counter()
        """Clients by home."""
        self.planned = 0
        self._counted_row = 0
        """Enrolled clients up to this row of their table are counted."""
        self._is_complete = False

    def count_stored(self) -> None:
        """Count a plan that is in the store already, and all that are enrolled."""
        self.count_planned(
            self._database.execute(
                "SELECT server, count(*) FROM homes WHERE plan = ? GROUP BY server", (self.plan,)
            )
        )
        while self.count_enrolled():
            pass

    def count_planned(self, clients: Iterable[tuple[str, int]]) -> None:
        """Count clients of the plan, given by home."""
        for home, count in clients:
            self.taken[home] += count
            self.planned += count

    def count_enrolled(self) -> bool:
        """Count some of the enrolled clients that the plan does not name; tell if more are left.

        Once none is left, `saved` counts those that come.
        """
        if self._is_complete:
            return False
        rows = self._database.execute
        upto = self._counted_row + _ROWS_AT_ONCE
        for home, count in rows(
            "SELECT home, count(*) FROM clients WHERE rowid > ? AND rowid <= ? AND NOT EXISTS"
            " (SELECT 1 FROM homes WHERE plan = ? AND homes.client = clients.client)"
            " GROUP BY home",
            (self._counted_row, upto, self.plan),
        ):
            self.taken[home] += count
        self._counted_row = upto
        (last_row,) = rows("SELECT max(rowid) FROM clients").fetchone()
        self._is_complete = (last_row or 0) <= upto
        return not self._is_complete

    def saved(self, one: SavedClient) -> None:
        """Count a client that was enrolled, or enrolled again."""
        if self._is_planned(one.client):
            return
        if one.last_row is None:
            self.taken[one.home] += self._is_complete  # else it is counted when its row is reached
        elif self._is_complete or one.last_row <= self._counted_row:
            self.taken[one.last_home] -= 1
            self.taken[one.home] += 1

    def _is_planned(self, client: str) -> bool:
        found = self._database.execute(
            "SELECT 1 FROM homes WHERE plan = ? AND client = ?", (self.plan, client)
        )
        return found.fetchone() is not None

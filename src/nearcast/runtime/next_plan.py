"""A plan that is written into the manager's store beside the one in force, slice by slice.

Each slice is a transaction of its own, so that the manager can answer between two of them. Nobody
sees any of it until the store adopts the plan, in one more transaction: after a crash the old plan
or the new one is in force, and rows of any other are swept away.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import msgspec

from nearcast.errors import OutputError
from nearcast.runtime.client_counts import SavedClient
from nearcast.runtime.stored_clients import StoredClients
from nearcast.server.enrolment import rehomed
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer, SiteTopic
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient

__all__ = ["NextPlan", "PlanRows", "plan_rows", "sweep_plans"]

_CLIENTS_AT_ONCE = 500
_SWEPT_AT_ONCE = 500
_PLAN_TABLES = (
    ("homes", ("client",)),
    ("visits", ("server", "client")),
    ("topics_at", ("server", "topic")),
    ("topics", ("topic",)),
)
"""Each with what identifies a row within a plan."""


class PlanRows(msgspec.Struct, array_like=True, gc=False):
    """Rows of some clients of a plan."""

    homes: Sequence[tuple[str, str, str | None]]
    """Client, home, and the servers it publishes to by topic, as JSON."""
    visits: Sequence[tuple[str, str]]
    """Server and client that publishes there without being at home."""
    topics_at: Sequence[tuple[str, str]]
    """Home and topic of which some client there takes part."""


def plan_rows(clients: Iterable[PlannedClient]) -> Iterator[PlanRows]:
    """Return the rows of clients, some at a time."""
    left = iter(clients)
    encode = msgspec.json.Encoder().encode
    while some := list(islice(left, _CLIENTS_AT_ONCE)):
        visits = [
            (at, one.client)
            for one in some
            for at in {*one.publish.values()} - {one.home, DELEGATED}
        ]
        yield PlanRows(
            [
                (one.client, one.home, encode(one.publish).decode() if one.publish else None)
                for one in some
            ],
            visits,
            sorted({(one.home, topic) for one in some for topic in one.topics}),
        )


class NextPlan:
    """A plan that is not in force yet."""

    def __init__(self, database: sqlite3.Connection, version: int, clients: StoredClients) -> None:
        self._database, self._version, self._clients = database, version, clients
        self.counts = clients.count_beside(version)

    def add_topics(self, topics: Iterable[SiteTopic]) -> None:
        """Write topics."""
        with _slice(self._database):
            self._database.executemany(
                "INSERT INTO topics VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        *(self._version, one.planned.topic, one.planned.spool),
                        *(json.dumps(one.planned.edge_brokers), one.planned.delegates),
                        *(one.planned.streams, one.version, json.dumps(one.moved_from)),
                    )
                    for one in topics
                ),
            )

    def add(self, rows: PlanRows) -> None:
        """Write clients."""
        plan, last = self._version, self._clients.plan
        with _slice(self._database):
            self._database.executemany(
                "INSERT INTO homes VALUES (?1, ?2, ?3, (SELECT server FROM homes"
                " WHERE plan = ?4 AND client = ?2 AND server <> ?3), ?5)",
                [(plan, client, home, last, publish) for client, home, publish in rows.homes],
            )
            for table, pairs in (("visits", rows.visits), ("topics_at", rows.topics_at)):
                self._database.executemany(
                    f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)",
                    [(plan, *pair) for pair in pairs],
                )
        self.counts.count_planned(Counter(home for _, home, _ in rows.homes).items())

    def count_enrolled(self) -> bool:
        """Count some clients that are enrolled besides; return whether there are more."""
        return self.counts.count_enrolled()

    def rehome(self, servers: Mapping[str, SiteServer]) -> list[SavedClient]:
        """Give a home to each client that no plan knows and whose home is gone."""
        homes = HomeChoice(servers, self.counts.taken)
        gone = [home for home, count in self.counts.taken.items() if count and home not in servers]
        found = self._clients.enrolled_at(gone, self._version)
        return self._clients.save([rehomed(one, homes) for one in found])


@contextmanager
def _slice(database: sqlite3.Connection) -> Iterator[None]:
    """Write a transaction that need not be durable before the next one that must be.

    The sync of a later transaction takes in all that stands before it in SQLite's log.
    """
    try:
        database.execute("PRAGMA synchronous = NORMAL")
        with database:
            database.execute("BEGIN IMMEDIATE")
            yield
    except sqlite3.Error as error:
        raise OutputError(f"a plan cannot be written or removed: {error}") from error
    finally:
        database.execute("PRAGMA synchronous = FULL")


def sweep_plans(database: sqlite3.Connection, in_force: int) -> bool:
    """Remove some rows of plans that are not in force; return whether there may be more."""
    with _slice(database):
        for table, key in _PLAN_TABLES:
            for side in "<>":
                # row by row: SQLite would look at the whole table for a list of them
                rows = database.execute(
                    f"SELECT plan, {', '.join(key)} FROM {table} WHERE plan {side} ? LIMIT ?",
                    (in_force, _SWEPT_AT_ONCE),
                ).fetchall()
                if rows:
                    wanted = " AND ".join(f"{column} = ?" for column in ("plan", *key))
                    database.executemany(f"DELETE FROM {table} WHERE {wanted}", rows)
                    return True
    return False

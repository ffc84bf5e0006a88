"""The clients of a site in the manager's store: asked by server and by name, never all at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from nearcast.runtime.client_counts import ClientCounts, SavedClient
from nearcast.server.enrolment import EnrolledClient
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer
from nearcast.server.site_orders import ClientOrder
from nearcast.trust.rights import Rights

__all__ = ["StoredClients"]

_ORDER = "SELECT homes.client, homes.server, homes.publish FROM homes"
"""Queries by home name their index: by itself SQLite looks at all clients of a plan."""
_NOT_PLANNED = "NOT EXISTS (SELECT 1 FROM homes WHERE plan = ? AND homes.client = clients.client)"
_decode_publish = msgspec.json.Decoder(dict[str, str]).decode


class StoredClients:
    """What the manager knows about clients; see `ClientDirectory` and `EnrolmentDirectory`.

    Parameters
    ----------
    plan
        The version of the plan in force; 0 while there is none.
    """

    def __init__(self, database: sqlite3.Connection, plan: int) -> None:
        self._database = database
        self._counts = ClientCounts(database, plan)
        self._counts.count_stored()
        self._next: ClientCounts | None = None
        """Of a plan that is being written."""
        (self._enrolled,) = database.execute("SELECT count(*) FROM clients").fetchone()

    @property
    def plan(self) -> int:
        """The version of the plan in force."""
        return self._counts.plan

    # For orders

    def clients_of(self, server: str) -> Iterator[ClientOrder]:
        """Return the clients whose home a server is, and those that publish there."""
        rows, here = self._database.execute, (self.plan, server)
        yield from _orders(
            rows(f"{_ORDER} INDEXED BY homes_by_server WHERE plan = ? AND server = ?", here)
        )
        yield from _orders(
            rows(
                f"{_ORDER} JOIN visits USING (plan, client)"
                " WHERE visits.plan = ? AND visits.server = ?",
                here,
            )
        )
        yield from _orders(
            rows(
                f"SELECT client, home, NULL FROM clients WHERE home = ? AND {_NOT_PLANNED}",
                (server, self.plan),
            )
        )

    def topics_of(self, server: str) -> set[str]:
        """Return the topics that planned clients with this home take part in."""
        rows = self._database.execute(
            "SELECT topic FROM topics_at WHERE plan = ? AND server = ?", (self.plan, server)
        )
        return {topic for (topic,) in rows}

    def left(self, server: str) -> dict[str, str]:
        """Return the homes of clients that left a server in the last plan."""
        return dict(
            self._database.execute(
                "SELECT client, server FROM homes INDEXED BY homes_by_last_server"
                " WHERE plan = ? AND before = ?",
                (self.plan, server),
            )
        )

    def find(self, client: str) -> ClientOrder | None:
        """Return what is known about a client."""
        found = self._database.execute(
            f"{_ORDER} WHERE plan = ? AND client = ?", (self.plan, client)
        ).fetchone()
        if found is not None:
            return next(_orders([found]))
        enrolled = self.enrolled(client)
        return ClientOrder(client, enrolled.home) if enrolled else None

    def counts(self) -> tuple[int, int]:
        """Return how many clients are planned, and how many have a credential."""
        return self._counts.planned, self._enrolled

    # For enrolment

    def enrolled(self, client: str) -> EnrolledClient | None:
        """Return a client that is enrolled."""
        row = self._database.execute("SELECT * FROM clients WHERE client = ?", (client,)).fetchone()
        if row is None:
            return None
        found = _enrolled(row)
        home = self.planned_home(client)
        return found if home is None else replace(found, home=home)

    def owner_of(self, public_key: bytes) -> str | None:
        """Return the client that has a key."""
        row = self._database.execute(
            "SELECT client FROM clients WHERE public_key = ?", (public_key,)
        ).fetchone()
        return row[0] if row else None

    def planned_home(self, client: str) -> str | None:
        """Return the home of a client of the plan."""
        row = self._database.execute(
            "SELECT server FROM homes WHERE plan = ? AND client = ?", (self.plan, client)
        ).fetchone()
        return row[0] if row else None

    def planned_homes(self, after: str, limit: int) -> list[tuple[str, str]]:
        """Return clients of the plan with their homes, in the order of names, after a name."""
        return self._database.execute(
            "SELECT client, server FROM homes WHERE plan = ? AND client > ? ORDER BY client LIMIT ?",
            (self.plan, after, limit),
        ).fetchall()

    def home_choice(self, servers: Mapping[str, SiteServer]) -> HomeChoice:
        """Return how many clients each server has, to choose homes for more."""
        return HomeChoice(servers, self._counts.taken)

    # Changes, inside a transaction of the store

    def save(self, clients: Iterable[EnrolledClient]) -> list[SavedClient]:
        """Add enrolled clients, or replace those that have the same names.

        What it returns goes to `count` after the transaction, if that does not fail.
        """
        rows, saved = self._database.execute, []
        for one in clients:
            before = rows("SELECT rowid, home FROM clients WHERE client = ?", (one.client,))
            last_row, last_home = before.fetchone() or (None, "")
            rows(
                "INSERT INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client)"
                " DO UPDATE SET public_key = excluded.public_key, home = excluded.home,"
                " x_km = excluded.x_km, y_km = excluded.y_km, serial = excluded.serial,"
                " until_s = excluded.until_s, rights = excluded.rights,"
                " credential = excluded.credential",
                (
                    *(one.client, one.public_key, one.home, *(one.place_km or (None, None))),
                    *(one.serial, one.until_s, msgspec.msgpack.encode(one.rights)),
                    one.credential,
                ),
            )
            saved.append(SavedClient(one.client, one.home, last_row, last_home))
        return saved

    # Counts, after a transaction

    def count(self, saved: Iterable[SavedClient]) -> None:
        """Count clients that were saved."""
        for one in saved:
            self._enrolled += one.last_row is None
            for counts in (self._counts, self._next):
                if counts is not None:
                    counts.saved(one)

    def count_beside(self, plan: int) -> ClientCounts:
        """Return the counts for another plan, which will know of clients that enrol meanwhile."""
        self._next = ClientCounts(self._database, plan)
        return self._next

    def follow(self, counts: ClientCounts) -> None:
        """Go by another plan."""
        self._counts, self._next = counts, None

    def enrolled_at(self, homes: Iterable[str], plan: int) -> list[EnrolledClient]:
        """Return enrolled clients with these homes that a plan does not name."""
        return [
            _enrolled(row)
            for home in homes
            for row in self._database.execute(
                f"SELECT * FROM clients WHERE home = ? AND {_NOT_PLANNED}", (home, plan)
            )
        ]


def _orders(rows: Iterable[tuple[str, str, str | None]]) -> Iterator[ClientOrder]:
    for client, home, publish in rows:
        yield ClientOrder(client, home, _decode_publish(publish) if publish else {})


def _enrolled(row: tuple[str, bytes, str, float, float, int, int, bytes, bytes]) -> EnrolledClient:
    client, key, home, x_km, y_km, serial, until_s, rights, credential = row
    place_km = None if x_km is None or y_km is None else (x_km, y_km)
    granted = msgspec.msgpack.decode(rights, type=Rights)
    return EnrolledClient(client, key, home, place_km, serial, until_s, granted, credential)

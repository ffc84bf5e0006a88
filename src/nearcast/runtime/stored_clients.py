"""The clients of a site in the manager's store: asked by server and by name, never all at once."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from nearcast.server.enrolment import EnrolledClient, rehomed
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient
from nearcast.server.site_orders import ClientOrder
from nearcast.trust.rights import Rights

__all__ = ["StoredClients"]

_PAIRS_AT_ONCE = 10_000
"""Pairs of server and topic that are gathered before they are written."""
_ORDER = "SELECT homes.client, homes.server, homes.publish FROM homes"


class StoredClients:
    """What the manager knows about clients; see `ClientDirectory` and `EnrolmentDirectory`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.refresh()

    def refresh(self) -> None:
        """Count all anew."""
        rows = self._database.execute
        self._taken = Counter(dict(rows("SELECT server, count(*) FROM homes GROUP BY server")))
        """Clients by home."""
        self._planned = self._taken.total()
        for home, count in rows(
            "SELECT home, count(*) FROM clients WHERE client NOT IN (SELECT client FROM homes)"
            " GROUP BY home"
        ):
            self._taken[home] += count

    # For orders

    def clients_of(self, server: str) -> Iterator[ClientOrder]:
        """Return the clients whose home a server is, and those that publish there."""
        rows = self._database.execute
        yield from _orders(rows(f"{_ORDER} WHERE server = ?", (server,)))
        yield from _orders(
            rows(f"{_ORDER} JOIN visits USING (client) WHERE visits.server = ?", (server,))
        )
        yield from _orders(
            rows(
                "SELECT client, home, NULL FROM clients WHERE home = ?"
                " AND client NOT IN (SELECT client FROM homes)",
                (server,),
            )
        )

    def topics_of(self, server: str) -> set[str]:
        """Return the topics that planned clients with this home take part in."""
        rows = self._database.execute("SELECT topic FROM topics_at WHERE server = ?", (server,))
        return {topic for (topic,) in rows}

    def left(self, server: str) -> dict[str, str]:
        """Return the homes of clients that left a server in the last plan."""
        return dict(
            self._database.execute("SELECT client, server FROM homes WHERE before = ?", (server,))
        )

    def find(self, client: str) -> ClientOrder | None:
        """Return what is known about a client."""
        found = self._database.execute(f"{_ORDER} WHERE client = ?", (client,)).fetchone()
        if found is not None:
            return next(_orders([found]))
        enrolled = self.enrolled(client)
        return ClientOrder(client, enrolled.home) if enrolled else None

    def counts(self) -> tuple[int, int]:
        """Return how many clients are planned, and how many have a credential."""
        (enrolled,) = self._database.execute("SELECT count(*) FROM clients").fetchone()
        return self._planned, enrolled

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
            "SELECT server FROM homes WHERE client = ?", (client,)
        ).fetchone()
        return row[0] if row else None

    def home_choice(self, servers: Mapping[str, SiteServer]) -> HomeChoice:
        """Return how many clients each server has, to choose homes for more."""
        return HomeChoice(servers, self._taken)

    # Changes, inside a transaction of the store

    def save(self, clients: Iterable[EnrolledClient]) -> None:
        """Add enrolled clients, or replace those that have the same names."""
        clients = list(clients)
        for one in clients:
            if self.planned_home(one.client) is None:
                before = self.enrolled(one.client)
                if before is not None:
                    self._taken[before.home] -= 1
                self._taken[one.home] += 1
        self._database.executemany(
            "INSERT INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client) DO UPDATE"
            " SET public_key = excluded.public_key, home = excluded.home, x_km = excluded.x_km,"
            " y_km = excluded.y_km, serial = excluded.serial, until_s = excluded.until_s,"
            " rights = excluded.rights, credential = excluded.credential",
            (
                (
                    *(one.client, one.public_key, one.home, *(one.place_km or (None, None))),
                    *(one.serial, one.until_s, msgspec.msgpack.encode(one.rights)),
                    one.credential,
                )
                for one in clients
            ),
        )

    def replace_plan(
        self, clients: Iterable[PlannedClient], servers: Mapping[str, SiteServer]
    ) -> None:
        """Write the clients of another plan; others stay, or move when their home is gone."""
        database = self._database
        database.execute("DELETE FROM visits")
        database.execute("DELETE FROM topics_at")
        database.execute("CREATE TEMP TABLE last_homes AS SELECT client, server FROM homes")
        database.execute("DELETE FROM homes")
        database.executemany(
            "INSERT INTO homes VALUES (?, ?, NULL, ?)", self._rows_of_homes(clients)
        )
        database.execute(
            "UPDATE homes SET before = last_homes.server FROM last_homes"
            " WHERE homes.client = last_homes.client AND homes.server <> last_homes.server"
        )
        database.execute("DROP TABLE last_homes")
        self.refresh()
        homes = self.home_choice(servers)
        self.save([rehomed(one, homes) for one in self._homeless(servers)])

    def _rows_of_homes(
        self, clients: Iterable[PlannedClient]
    ) -> Iterator[tuple[str, str, str | None]]:
        """Return rows for the table of homes; visits and topics are written on the way."""
        topics: set[tuple[str, str]] = set()
        for one in clients:
            publish = dict(one.publish)
            self._database.executemany(
                "INSERT OR IGNORE INTO visits VALUES (?, ?)",
                [(at, one.client) for at in {*publish.values()} - {one.home, DELEGATED}],
            )
            topics.update((one.home, topic) for topic in one.topics)
            if len(topics) >= _PAIRS_AT_ONCE:
                self._save_topics(topics)
            yield one.client, one.home, json.dumps(publish) if publish else None
        self._save_topics(topics)

    def _save_topics(self, topics: set[tuple[str, str]]) -> None:
        self._database.executemany("INSERT OR IGNORE INTO topics_at VALUES (?, ?)", topics)
        topics.clear()

    def _homeless(self, servers: Container[str]) -> list[EnrolledClient]:
        """Return clients that no plan knows, and whose home is gone."""
        homes = self._database.execute("SELECT DISTINCT home FROM clients").fetchall()
        return [
            _enrolled(row)
            for (home,) in homes
            if home not in servers
            for row in self._database.execute(
                "SELECT * FROM clients WHERE home = ? AND client NOT IN (SELECT client FROM homes)",
                (home,),
            ).fetchall()
        ]


def _orders(rows: Iterable[tuple[str, str, str | None]]) -> Iterator[ClientOrder]:
    for client, home, publish in rows:
        yield ClientOrder(client, home, json.loads(publish) if publish else {})


def _enrolled(row: tuple[str, bytes, str, float, float, int, int, bytes, bytes]) -> EnrolledClient:
    client, key, home, x_km, y_km, serial, until_s, rights, credential = row
    place_km = None if x_km is None or y_km is None else (x_km, y_km)
    granted = msgspec.msgpack.decode(rights, type=Rights)
    return EnrolledClient(client, key, home, place_km, serial, until_s, granted, credential)

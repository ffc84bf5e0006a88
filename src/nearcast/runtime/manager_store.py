"""The manager's state on disk: SQLite, one transaction per change, nothing lost by a crash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import ConfigError, NearcastError, OutputError, RestartNeededError
from nearcast.server.manager_state import EnrolledClient, ManagerState, PlanVersion, SiteServer
from nearcast.server.orders_from_plan import PlannedTopic, SitePlan
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ServerOrder

__all__ = ["ManagerStore"]

_APPLICATION_ID = 0x6E636D67
"""Marks a file as ours: "ncmg"."""
_PLANS_KEPT = 5
"""Plans whose tables stay; of older ones only the row in plan_versions does."""

_MIGRATIONS = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value ANY NOT NULL);
    CREATE TABLE servers (
        server TEXT PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL,
        public_key BLOB NOT NULL, mesh_host TEXT NOT NULL, mesh_port INTEGER NOT NULL,
        x_km REAL, y_km REAL,
        storage REAL NOT NULL, compute REAL NOT NULL, client_limit REAL NOT NULL
    );
    CREATE TABLE clients (
        client TEXT PRIMARY KEY, public_key BLOB NOT NULL UNIQUE, home TEXT NOT NULL,
        x_km REAL, y_km REAL
    );
    CREATE TABLE plan_versions (
        version INTEGER PRIMARY KEY, adopted_at REAL NOT NULL, model TEXT, method TEXT,
        cost REAL, metrics TEXT NOT NULL
    );
    CREATE TABLE topics (
        version INTEGER NOT NULL, topic TEXT NOT NULL, spool INTEGER NOT NULL,
        edge_brokers TEXT NOT NULL, delegates INTEGER NOT NULL, share TEXT NOT NULL,
        PRIMARY KEY (version, topic)
    );
    CREATE TABLE homes (
        version INTEGER NOT NULL, client TEXT NOT NULL, server TEXT NOT NULL,
        publish TEXT, PRIMARY KEY (version, client)
    );
    """,
)
"""The scripts that lead from one schema version to the next; never change one that was released."""


class ManagerStore:
    """The store of one manager, which has it for itself.

    Parameters
    ----------
    path
        The file; it is made when it is not there.

    Raises
    ------
    ConfigError
        When the file is damaged, is something else, is of a newer nearcast, or is in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"{path}: the manager's store cannot be opened: {error}") from None
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise self._unusable(error) from None
        except ConfigError:
            self._database.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def load(self) -> ManagerState | None:
        """Return the state; None when the store is new."""
        try:
            return self._load()
        except (sqlite3.DatabaseError, ValueError, TypeError, msgspec.MsgspecError) as error:
            raise self._unusable(error) from None

    def fact(self, name: str) -> Any:
        """Return a value that `save_site` or `save_fact` wrote; None when there is none."""
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def save_site(self, state: ManagerState, **facts: str | int) -> None:
        """Write everything, the plan in force as a version of its own."""
        version, plan = state.versions[-1], state.plan
        number = version.version
        with self._transaction(state.revision) as database:
            _save_servers(database, state.servers.values())
            _save_processors(database, state.processors)
            database.execute("DELETE FROM clients")
            _save_clients(database, state.clients.values())
            database.execute(
                "INSERT INTO plan_versions VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(number, version.adopted_at, version.model, version.method, version.cost),
                    json.dumps(dict(version.metrics)),
                ),
            )
            database.executemany(
                "INSERT INTO topics VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (
                        *(number, one.topic, one.spool, json.dumps(one.edge_brokers)),
                        *(one.delegates, json.dumps(dict(one.share))),
                    )
                    for one in plan.topics
                ),
            )
            database.executemany(
                "INSERT INTO homes VALUES (?, ?, ?, ?)",
                (
                    (number, client, home, _json_or_null(plan.publish.get(client)))
                    for client, home in plan.homes.items()
                ),
            )
            for table in ("topics", "homes"):
                database.execute(f"DELETE FROM {table} WHERE version <= ?", (number - _PLANS_KEPT,))
            for name, value in facts.items():
                database.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))

    def save_servers(self, state: ManagerState, **facts: str | int) -> None:
        """Write what the configuration says of the site: servers and processors."""
        with self._transaction(state.revision) as database:
            _save_servers(database, state.servers.values())
            _save_processors(database, state.processors)
            for name, value in facts.items():
                database.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))

    def save_clients(self, clients: Iterable[EnrolledClient], revision: int) -> None:
        """Write clients that were enrolled, or enrolled again."""
        with self._transaction(revision) as database:
            _save_clients(database, clients)

    def save_processors(self, state: ManagerState) -> None:
        """Write what brokers do with messages."""
        with self._transaction(state.revision) as database:
            _save_processors(database, state.processors)

    def save_revision(self, revision: int) -> None:
        """Write the revision alone."""
        with self._transaction(revision):
            pass

    def _open(self) -> None:
        database = self._database
        # exclusive: a second manager on the same site would undo what this one says
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (application_id,) = database.execute("PRAGMA application_id").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application_id != _APPLICATION_ID and tables:
            raise ConfigError(f"{self._path}: a database, but not a store of a nearcast manager")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        (schema,) = database.execute("PRAGMA user_version").fetchone()
        if schema > len(_MIGRATIONS):
            raise ConfigError(
                f"{self._path}: written by a newer nearcast (schema {schema}, this one knows"
                f" {len(_MIGRATIONS)}); update nearcast"
            )
        for number, script in enumerate(_MIGRATIONS[schema:], schema + 1):
            database.executescript(
                f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {_APPLICATION_ID};"
                f" PRAGMA user_version = {number}; COMMIT;"
            )

    def _unusable(self, error: Exception) -> NearcastError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return RestartNeededError(f"{self._path}: the disk is full: make room")
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return ConfigError(f"{self._path}: another manager uses this store")
        return ConfigError(
            f"{self._path}: no usable store of a manager ({error}); bring back a copy, or move"
            " the file away and enrol the clients again"
        )

    @contextmanager
    def _transaction(self, revision: int) -> Iterator[sqlite3.Connection]:
        try:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("REPLACE INTO facts VALUES ('revision', ?)", (revision,))
        except sqlite3.Error as error:
            raise OutputError(f"{self._path}: the change cannot be written: {error}") from error

    def _load(self) -> ManagerState | None:
        revision, rows = self.fact("revision"), self._database.execute
        versions = tuple(
            PlanVersion(version, adopted_at, model, method, cost, json.loads(metrics))
            for version, adopted_at, model, method, cost, metrics in rows(
                "SELECT * FROM plan_versions ORDER BY version"
            )
        )
        if revision is None or not versions:
            return None
        number = (versions[-1].version,)
        topics = rows(
            "SELECT topic, spool, edge_brokers, delegates, share FROM topics"
            " WHERE version = ? ORDER BY rowid",
            number,
        )
        homes = rows(
            "SELECT client, server, publish FROM homes WHERE version = ? ORDER BY rowid", number
        ).fetchall()
        plan = SitePlan(
            topics=tuple(
                PlannedTopic(
                    topic, spool, tuple(json.loads(brokers)), bool(delegates), json.loads(share)
                )
                for topic, spool, brokers, delegates, share in topics
            ),
            homes={client: server for client, server, _ in homes},
            publish={client: json.loads(publish) for client, _, publish in homes if publish},
        )
        servers = {
            row[0]: SiteServer(ServerOrder(*row[:6]), _place(*row[6:8]), *row[8:])
            for row in rows("SELECT * FROM servers ORDER BY rowid")
        }
        clients = {
            client: EnrolledClient(client, key, home, _place(x, y))
            for client, key, home, x, y in rows("SELECT * FROM clients ORDER BY rowid")
        }
        saved = self.fact("processors")
        rules = msgspec.json.decode(saved, type=tuple[ProcessorRule, ...]) if saved else ()
        return ManagerState(revision, servers, versions, plan, clients, rules)


def _save_servers(database: sqlite3.Connection, servers: Iterable[SiteServer]) -> None:
    database.execute("DELETE FROM servers")
    database.executemany(
        "INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(one.order.server, one.order.host, one.order.port, one.order.public_key),
                *(one.order.mesh_host, one.order.mesh_port, *(one.place_km or (None, None))),
                *(one.storage, one.compute, one.client_limit),
            )
            for one in servers
        ),
    )


def _save_processors(database: sqlite3.Connection, rules: tuple[ProcessorRule, ...]) -> None:
    text = msgspec.json.encode(rules).decode()
    database.execute("REPLACE INTO facts VALUES ('processors', ?)", (text,))


def _save_clients(database: sqlite3.Connection, clients: Iterable[EnrolledClient]) -> None:
    database.executemany(
        "INSERT INTO clients VALUES (?, ?, ?, ?, ?) ON CONFLICT (client) DO UPDATE SET"
        " public_key = excluded.public_key, home = excluded.home,"
        " x_km = excluded.x_km, y_km = excluded.y_km",
        (
            (one.client, one.public_key, one.home, *(one.place_km or (None, None)))
            for one in clients
        ),
    )


def _place(x_km: float | None, y_km: float | None) -> tuple[float, float] | None:
    return None if x_km is None or y_km is None else (x_km, y_km)


def _json_or_null(publish: Any) -> str | None:
    return json.dumps(dict(publish)) if publish else None

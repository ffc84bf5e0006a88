"""The manager's state on disk: SQLite, one transaction per change, nothing lost by a crash.

Clients stay there: `StoredClients` answers what the manager asks about them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import ConfigError, NearcastError, OutputError, RestartNeededError
from nearcast.flow.flow_orders import FlowOrder
from nearcast.runtime.next_plan import NextPlan, plan_rows, sweep_plans
from nearcast.runtime.stored_clients import StoredClients
from nearcast.server.enrolment import EnrolledClient
from nearcast.server.manager_state import ManagerState, PlanVersion, SiteServer, SiteTopic
from nearcast.server.orders_from_plan import PlannedTopic, SitePlan
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.revocations import RevocationList

__all__ = ["ManagerStore"]

_APPLICATION_ID = 0x6E636D67
"""Marks a file as ours: "ncmg"."""
_MIGRATIONS = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value ANY NOT NULL);
    CREATE TABLE servers (
        server TEXT PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL,
        public_key BLOB NOT NULL, mesh_host TEXT NOT NULL, mesh_port INTEGER NOT NULL,
        credential BLOB NOT NULL, x_km REAL, y_km REAL,
        storage REAL NOT NULL, compute REAL NOT NULL, client_limit REAL NOT NULL
    );
    CREATE TABLE clients (
        client TEXT PRIMARY KEY, public_key BLOB NOT NULL UNIQUE, home TEXT NOT NULL,
        x_km REAL, y_km REAL, serial INTEGER NOT NULL, until_s INTEGER NOT NULL,
        rights BLOB NOT NULL, credential BLOB NOT NULL
    );
    CREATE INDEX clients_by_home ON clients (home);
    CREATE TABLE plan_versions (
        version INTEGER PRIMARY KEY, adopted_at REAL NOT NULL, model TEXT, method TEXT,
        cost REAL, metrics TEXT NOT NULL
    );
    CREATE TABLE topics (
        topic TEXT PRIMARY KEY, spool INTEGER NOT NULL, edge_brokers TEXT NOT NULL,
        delegates INTEGER NOT NULL, streams TEXT NOT NULL, version INTEGER NOT NULL,
        moved_from TEXT NOT NULL
    );
    CREATE TABLE homes (
        client TEXT PRIMARY KEY, server TEXT NOT NULL, before TEXT, publish TEXT
    ) WITHOUT ROWID;
    CREATE INDEX homes_by_server ON homes (server);
    CREATE INDEX homes_by_last_server ON homes (before) WHERE before IS NOT NULL;
    CREATE TABLE visits (
        server TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (server, client)
    ) WITHOUT ROWID;
    CREATE TABLE topics_at (
        server TEXT NOT NULL, topic TEXT NOT NULL, PRIMARY KEY (server, topic)
    ) WITHOUT ROWID;
    """,
    # two plans at a time: the one in force, and one that is being written
    """
    ALTER TABLE topics RENAME TO topics_1;
    ALTER TABLE homes RENAME TO homes_1;
    ALTER TABLE visits RENAME TO visits_1;
    ALTER TABLE topics_at RENAME TO topics_at_1;
    CREATE TABLE topics (
        plan INTEGER NOT NULL, topic TEXT NOT NULL, spool INTEGER NOT NULL,
        edge_brokers TEXT NOT NULL, delegates INTEGER NOT NULL, streams TEXT NOT NULL,
        version INTEGER NOT NULL, moved_from TEXT NOT NULL, PRIMARY KEY (plan, topic)
    );
    CREATE TABLE homes (
        plan INTEGER NOT NULL, client TEXT NOT NULL, server TEXT NOT NULL, before TEXT,
        publish TEXT, PRIMARY KEY (plan, client)
    ) WITHOUT ROWID;
    CREATE TABLE visits (
        plan INTEGER NOT NULL, server TEXT NOT NULL, client TEXT NOT NULL,
        PRIMARY KEY (plan, server, client)
    ) WITHOUT ROWID;
    CREATE TABLE topics_at (
        plan INTEGER NOT NULL, server TEXT NOT NULL, topic TEXT NOT NULL,
        PRIMARY KEY (plan, server, topic)
    ) WITHOUT ROWID;
    INSERT INTO topics SELECT (SELECT max(version) FROM plan_versions), * FROM topics_1
        ORDER BY rowid;
    INSERT INTO homes SELECT (SELECT max(version) FROM plan_versions), * FROM homes_1;
    INSERT INTO visits SELECT (SELECT max(version) FROM plan_versions), * FROM visits_1;
    INSERT INTO topics_at SELECT (SELECT max(version) FROM plan_versions), * FROM topics_at_1;
    DROP TABLE topics_1; DROP TABLE homes_1; DROP TABLE visits_1; DROP TABLE topics_at_1;
    CREATE INDEX homes_by_server ON homes (plan, server);
    CREATE INDEX homes_by_last_server ON homes (plan, before) WHERE before IS NOT NULL;
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
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # it holds who is who
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
        (plan,) = self._database.execute("SELECT max(version) FROM plan_versions").fetchone()
        self.clients = StoredClients(self._database, plan or 0)
        """What is known about clients."""

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
        """Return a value that `adopt` or `save_servers` wrote; None when there is none."""
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def begin_plan(self, version: int) -> NextPlan:
        """Return a plan to be written beside the one in force, which stays until `adopt`.

        Sweep before: a plan with this version may have been begun and given up.
        """
        return NextPlan(self._database, version, self.clients)

    def adopt(self, state: ManagerState, plan: NextPlan, **facts: str | int) -> None:
        """Bring a plan into force that is written, and other servers: all in one transaction."""
        version = state.versions[-1]
        with self._transaction(state.revision) as database:
            _save_servers(database, state.servers.values())
            _save_processors(database, state.processors)
            database.execute(
                "INSERT INTO plan_versions VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(version.version, version.adopted_at, version.model, version.method),
                    *(version.cost, json.dumps(dict(version.metrics))),
                ),
            )
            self._save_facts(facts)
            moved = plan.rehome(state.servers)
        self.clients.follow(plan.counts)
        self.clients.count(moved)

    def sweep(self) -> bool:
        """Remove some rows of plans that are not in force; return whether there may be more."""
        return sweep_plans(self._database, self.clients.plan)

    def save_site(self, state: ManagerState, plan: SitePlan, **facts: str | int) -> None:
        """Write another plan and the servers, and bring them into force, at one go."""
        while self.sweep():
            pass
        written = self.begin_plan(state.versions[-1].version)
        written.add_topics(state.topics)
        for rows in plan_rows(plan.clients):
            written.add(rows)
        while written.count_enrolled():
            pass
        self.adopt(state, written, **facts)

    def save_clients(self, clients: Iterable[EnrolledClient], state: ManagerState) -> None:
        """Add enrolled clients, or replace those that have the same names, and what is revoked."""
        with self._transaction(state.revision) as database:
            _save_revocations(database, state.revocations)
            saved = self.clients.save(clients)
        self.clients.count(saved)

    def save_servers(self, state: ManagerState, **facts: str | int) -> None:
        """Write other addresses and processors."""
        with self._transaction(state.revision) as database:
            _save_servers(database, state.servers.values())
            _save_processors(database, state.processors)
            self._save_facts(facts)

    def save_processors(self, state: ManagerState) -> None:
        """Write other processors."""
        with self._transaction(state.revision) as database:
            _save_processors(database, state.processors)

    def save_flows(self, state: ManagerState) -> None:
        """Write which flows run."""
        with self._transaction(state.revision) as database:
            text = msgspec.json.encode(state.flows).decode()
            database.execute("REPLACE INTO facts VALUES ('flows', ?)", (text,))

    def save_revocations(self, state: ManagerState) -> None:
        """Write what was revoked."""
        with self._transaction(state.revision) as database:
            _save_revocations(database, state.revocations)

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
            raise sqlite3.DatabaseError(" ".join(verdict.split()))  # it may be several lines
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

    def _save_facts(self, facts: Mapping[str, str | int]) -> None:
        for name, value in facts.items():
            self._database.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))

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
        topics = tuple(
            SiteTopic(
                PlannedTopic(topic, spool, tuple(json.loads(brokers)), bool(delegates), streams),
                version,
                tuple(json.loads(moved_from)),
            )
            for _, topic, spool, brokers, delegates, streams, version, moved_from in rows(
                "SELECT * FROM topics WHERE plan = ? ORDER BY rowid", (versions[-1].version,)
            )
        )
        servers = {
            row[0]: SiteServer(ServerOrder(*row[:7]), _place(*row[7:9]), *row[9:])
            for row in rows("SELECT * FROM servers ORDER BY rowid")
        }
        saved, revoked = self.fact("processors"), self.fact("revocations")
        rules = msgspec.json.decode(saved, type=tuple[ProcessorRule, ...]) if saved else ()
        revocations = (
            msgspec.msgpack.decode(revoked, type=RevocationList) if revoked else RevocationList()
        )
        flows = msgspec.json.decode(self.fact("flows") or "[]", type=tuple[FlowOrder, ...])
        return ManagerState(revision, servers, versions, topics, rules, revocations, flows)


def _save_servers(database: sqlite3.Connection, servers: Iterable[SiteServer]) -> None:
    database.execute("DELETE FROM servers")
    database.executemany(
        "INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(one.order.server, one.order.host, one.order.port, one.order.public_key),
                *(one.order.mesh_host, one.order.mesh_port, one.order.credential),
                *(one.place_km or (None, None)),
                *(one.storage, one.compute, one.client_limit),
            )
            for one in servers
        ),
    )


def _save_processors(database: sqlite3.Connection, rules: tuple[ProcessorRule, ...]) -> None:
    text = msgspec.json.encode(rules).decode()
    database.execute("REPLACE INTO facts VALUES ('processors', ?)", (text,))


def _save_revocations(database: sqlite3.Connection, revocations: RevocationList) -> None:
    content = msgspec.msgpack.encode(revocations)
    database.execute("REPLACE INTO facts VALUES ('revocations', ?)", (content,))


def _place(x_km: float | None, y_km: float | None) -> tuple[float, float] | None:
    return None if x_km is None or y_km is None else (x_km, y_km)

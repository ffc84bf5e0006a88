"""Which credentials an authority has issued: the last one of each name, in a small SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nearcast.errors import ConfigError, OutputError
from nearcast.trust.credentials import ClientCredential, ServerCredential, read_body
from nearcast.trust.signed import read_signed

__all__ = ["CredentialKind", "CredentialRegister", "Issued"]

CredentialKind = Literal["client", "server"]
_APPLICATION_ID = 0x6E637267
"""Marks a file as ours: "ncrg"."""
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Issued:
    """A credential that was issued."""

    kind: CredentialKind
    name: str
    serial: int
    until_s: int
    document: bytes
    """Signed."""

    def client(self) -> ClientCredential:
        """Return what it says of a client."""
        return read_body(read_signed(self.document).body, ClientCredential)

    def server(self) -> ServerCredential:
        """Return what it says of a server."""
        return read_body(read_signed(self.document).body, ServerCredential)


class CredentialRegister:
    """The register of one authority; several programs may use it at a time.

    Raises
    ------
    ConfigError
        When the file is damaged or something else.
    OutputError
        When it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(self, kind: CredentialKind, name: str) -> Issued | None:
        """Return the last credential of a name; None when it never had one."""
        return self.last_of(kind, [name]).get(name)

    def last_of(self, kind: CredentialKind, names: Iterable[str]) -> dict[str, Issued]:
        """Return the last credential of each name that ever had one."""
        with self._open() as database:
            rows = [
                database.execute(
                    "SELECT * FROM issued WHERE kind = ? AND name = ?", (kind, name)
                ).fetchone()
                for name in names
            ]
        return {row[1]: Issued(*row) for row in rows if row is not None}

    def known(self, kind: CredentialKind, name: str) -> Issued:
        """Return the last credential of a name; ConfigError when it never had one."""
        found = self.last(kind, name)
        if found is None:
            raise ConfigError(f"{kind} {name!r} has no credential of this authority")
        return found

    def all(self) -> list[Issued]:
        """Return the last credential of each name."""
        with self._open() as database:
            rows = database.execute("SELECT * FROM issued ORDER BY kind DESC, name").fetchall()
        return [Issued(*row) for row in rows]

    def note(self, issued: Iterable[Issued]) -> None:
        """Keep credentials, durably; those before of the same names are forgotten."""
        with self._open() as database:
            database.executemany(
                "REPLACE INTO issued VALUES (?, ?, ?, ?, ?)",
                ((one.kind, one.name, one.serial, one.until_s, one.document) for one in issued),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            database = sqlite3.connect(self._path, timeout=10.0)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"{self._path}: cannot be opened: {error}") from None
        try:
            with database:
                self._check(database)
                yield database
        except sqlite3.OperationalError as error:
            raise OutputError(f"{self._path}: cannot be written: {error}") from None
        except sqlite3.DatabaseError as error:
            raise ConfigError(
                f"{self._path}: no register of credentials ({error}); bring back a copy of it"
            ) from None
        finally:
            database.close()

    def _check(self, database: sqlite3.Connection) -> None:
        (application_id,) = database.execute("PRAGMA application_id").fetchone()
        (schema,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application_id == _APPLICATION_ID and schema == _SCHEMA:
            return
        if tables:
            raise ConfigError(f"{self._path}: a database, but no register that this nearcast reads")
        database.executescript(
            "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS issued (kind TEXT NOT NULL,"
            " name TEXT NOT NULL, serial INTEGER NOT NULL, until_s INTEGER NOT NULL,"
            " document BLOB NOT NULL, PRIMARY KEY (kind, name));"
            f" PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_SCHEMA}; COMMIT;"
        )

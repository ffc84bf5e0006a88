"""Files of the authority that a manager looks at while it runs: revocations, servers' credentials."""

from __future__ import annotations

import logging
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.runtime.config import ManagerConfig
from nearcast.runtime.manager_site import server_orders
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import read_body
from nearcast.trust.revocations import Revocation, RevocationList
from nearcast.trust.signed import Kind
from nearcast.trust.site_trust import SiteTrust

__all__ = ["ManagerFiles"]

_log = logging.getLogger(__name__)
Mark = tuple[int, int, int]
"""Changes whenever a file does."""


class ManagerFiles:
    """Tells what is new in the files that a manager's configuration names."""

    def __init__(self, config: ManagerConfig) -> None:
        self._config = config
        self._revocations: Mark | None = None
        self._credentials = self._credential_marks()

    def new_revocations(self, trust: SiteTrust) -> tuple[tuple[Revocation, ...], int]:
        """Return the entries and the version of the authority's list, nothing if it is the same."""
        path = self._config.revocations_file
        mark = None if path is None else _mark(path)
        if path is None or mark is None or mark == self._revocations:
            return (), 0
        self._revocations = mark
        try:
            body = trust.open(Kind.REVOCATIONS, path.read_bytes())
            found = read_body(body, RevocationList)
        except (OSError, NearcastError) as error:
            _log.error("revocations_unreadable", extra={"fields": {"reason": str(error)}})
            return (), 0
        return found.entries, found.version

    def new_servers(self) -> dict[str, ServerOrder] | None:
        """Return all servers when the credential of one was renewed."""
        marks = self._credential_marks()
        if marks == self._credentials:
            return None
        self._credentials = marks
        try:
            return server_orders(self._config)
        except NearcastError as error:
            _log.error("credentials_unreadable", extra={"fields": {"reason": str(error)}})
            return None

    def _credential_marks(self) -> list[Mark | None]:
        return [_mark(one.credential_file) for one in self._config.servers]


def _mark(path: Path) -> Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size

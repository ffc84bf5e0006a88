"""Whose links a server keeps: those of servers whose credentials count, and still do.

A credential may end while no new orders come: all are looked at again every minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from nearcast.errors import TrustError
from nearcast.links.mesh import MeshLink
from nearcast.runtime.mesh_peers import server_peers
from nearcast.runtime.trust_files import StartingTrust, checked_servers
from nearcast.server.site_orders import ServerOrder

__all__ = ["PeerTrust"]

_log = logging.getLogger(__name__)
_LOOK_S = 60.0
_SOON_DAYS = 30.0
_DAY_S = 86_400.0


class PeerTrust:
    """Tells the links who the others are; what is wrong with a credential is logged once.

    Parameters
    ----------
    starting
        The server's own documents.
    """

    def __init__(
        self, starting: StartingTrust, own_id: str, mesh: MeshLink, clock: Callable[[], float]
    ) -> None:
        self._starting, self._own_id = starting, own_id
        self._mesh, self._clock = mesh, clock
        self._servers: tuple[ServerOrder, ...] = ()
        self._problems: frozenset[str] = frozenset()
        self._look_at = self._warn_at = float("-inf")

    @property
    def not_trusted(self) -> int:
        """Other servers that have no link because their credentials do not count."""
        return len(self._problems)

    @property
    def days_left(self) -> float:
        """How long the server's own credential counts by its clock; below 0: it has ended."""
        return (self._starting.own.validity.until_s - self._clock()) / _DAY_S

    def learn(self, servers: Iterable[ServerOrder]) -> None:
        """Take the servers of new orders."""
        self._servers = tuple(servers)
        self._look(self._clock())

    def on_timer(self) -> None:
        """Look at all credentials again when it is time."""
        now = self._clock()
        if now >= self._look_at:
            self._look(now)

    def _look(self, now: float) -> None:
        self._look_at = now + _LOOK_S
        trust, manager = self._starting.trust, self._starting.manager
        servers, problems = checked_servers(trust, self._servers, now)
        peers = server_peers(servers, self._own_id)
        if manager is not None and self._starting.manager_credential is not None:
            try:
                trust.check_server(self._starting.manager_credential, now)
                peers.insert(0, manager)
            except TrustError as error:
                problems.append(f"manager {manager.server!r}: {error}")
        for problem in problems:
            if problem not in self._problems:
                _log.warning("server_not_trusted", extra={"fields": {"reason": problem}})
        self._problems = frozenset(problems)
        if self.days_left < _SOON_DAYS and now >= self._warn_at:
            self._warn_at = now + _DAY_S
            fields = {"server": self._own_id, "days_left": round(self.days_left, 1)}
            _log.warning("credential_ends_soon", extra={"fields": fields})
        self._mesh.learn(peers)

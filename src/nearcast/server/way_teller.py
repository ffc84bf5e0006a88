"""Tells clients which other servers take them in when this one is gone."""

from __future__ import annotations

from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.messages import Way
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.ways import WAY_LIMIT

__all__ = ["WayTeller"]


class WayTeller:
    """All ways at once to a client that comes, later one at a time: what is lost comes again."""

    def __init__(
        self, server: str, sessions: ServerSessions, trust: SiteTrust, interval_s: float
    ) -> None:
        self._server, self._sessions, self._interval_s = server, sessions, interval_s
        self._trust = trust
        self._ways: list[Way] = []

    def obey(self, orders: Orders, now: float) -> None:
        """Take the servers of new orders; who is here hears of them if they are others."""
        edges = [one for one in orders.servers if one.host and self._counts(one, now)]
        names = [one.server for one in edges]
        # those after this one come first, so that not all clients of the site try the same
        after = names.index(self._server) + 1 if self._server in names else 0
        others = [one for one in edges[after:] + edges[:after] if one.server != self._server]
        # this one too, the last: its clients may have an older credential of it
        told = [*others[: WAY_LIMIT - 1], *(one for one in edges if one.server == self._server)]
        ways = [
            Way(number, len(told), one.host, one.port, one.public_key, one.credential)
            for number, one in enumerate(told)
        ]
        if ways != self._ways:
            self._ways = ways
            for client in self._sessions.clients:
                self.tell_all(client)

    def _counts(self, server: ServerOrder, now: float) -> bool:
        """Tell whether clients would go there: those without an authority need no credential."""
        return not server.credential or self._trust.counts_as_server(server.credential, now)

    def tell_all(self, client: str) -> None:
        """Tell a client all ways."""
        for way in self._ways:
            self._sessions.tell(client, way)

    def tell_one(self, client: str, now: float) -> None:
        """Tell a client that has reported one way, each time another one."""
        if self._ways:
            self._sessions.tell(client, self._ways[int(now / self._interval_s) % len(self._ways)])

"""Tells clients which servers of the site were revoked."""

from __future__ import annotations

from nearcast.server.site_orders import Orders
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.messages import Revoked
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["RevocationTeller"]


class RevocationTeller:
    """All pages at once to a client that comes and when they change, later one at a time."""

    def __init__(self, sessions: ServerSessions, trust: SiteTrust, interval_s: float) -> None:
        self._sessions, self._trust, self._interval_s = sessions, trust, interval_s
        self._pages: list[Revoked] = []

    def obey(self, orders: Orders) -> None:
        """Take the list of new orders; who is here hears of it if it is another one."""
        pages = [Revoked(one, self._trust.signer_of(one)[1]) for one in orders.revoked_servers]
        if pages == self._pages:
            return
        self._pages = self._sessions.handshakes.revoked = pages
        for client in self._sessions.clients:
            self.tell_all(client)

    def tell_all(self, client: str) -> None:
        """Tell a client the whole list."""
        for page in self._pages:
            self._sessions.tell(client, page)

    def tell_one(self, client: str, now: float) -> None:
        """Tell a client that has reported one page, each time another one: some may be lost."""
        if self._pages:
            number = int(now / self._interval_s) % len(self._pages)
            self._sessions.tell(client, self._pages[number])

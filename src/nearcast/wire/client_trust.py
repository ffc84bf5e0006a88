"""A client leaves servers that no longer count, and finds out which those are."""

from __future__ import annotations

from nearcast.wire.actions import Disconnected, Home
from nearcast.wire.client_connection import ClientConnection
from nearcast.wire.client_context import ClientContext
from nearcast.wire.client_visits import ClientVisits
from nearcast.wire.framing import Header
from nearcast.wire.messages import CloseReason, Revoked
from nearcast.wire.second_opinion import SecondOpinion
from nearcast.wire.ways import Ways

__all__ = ["ClientTrust"]


class ClientTrust:
    """The list of revoked servers, no matter who tells it, and what follows for the client's sessions."""

    def __init__(
        self, context: ClientContext, ways: Ways, home: ClientConnection, visits: ClientVisits
    ) -> None:
        self._context, self._servers, self._ways = context, context.servers, ways
        self._home, self._visits = home, visits
        self._opinion = SecondOpinion(context, ways)
        self.waits_for, self.stop = self._opinion.waits_for, self._opinion.stop
        self.next_due = self._opinion.next_due

    def on_home(self, now: float) -> None:
        """Note a session with a home: another server is asked about it soon."""
        self._ways.met(self._home.server)
        self._opinion.begin(now)

    def note_credential(self, server: Home) -> None:
        """Take what a server was told to have: the home may have a newer credential."""
        if server == self._home.server:
            self._home.server = server

    def on_handshake(self, header: Header, data: bytes, now: float) -> None:
        """Take what another server answers."""
        page = self._opinion.on_answer(header, data, now)
        if page is not None:
            self.on_revoked(page, now)

    def on_revoked(self, page: Revoked, now: float) -> None:
        """Take a page of the list, of any server; Refused when nobody stands behind it."""
        if self._servers.learn(page.document, page.signer, now):
            self.leave_revoked(now)

    def leave_revoked(self, now: float) -> None:
        """Have nothing to do any more with servers that were revoked."""
        self._visits.leave_revoked()
        self._home.forget_revoked()
        if self._servers.is_revoked(self._home.server):
            self._leave_home(now)

    def poll(self, now: float) -> None:
        """Look at the home's credential again, and ask another server, if it is time."""
        if self._opinion.is_due(now):
            self._leave_expired(now)
        visited = (one.server for one in self._visits.connections())
        self._opinion.poll((self._home.server, *visited), now)

    def _leave_expired(self, now: float) -> None:
        """Leave a home whose credential has ended; if no other counts, the clock may be wrong."""
        servers, home = self._servers, self._home.server
        others = (one for one in self._ways.servers if one != home)
        has_ended = home.credential and not servers.counts(home, now)
        if has_ended and any(servers.counts(one, now) for one in others):
            self._leave_home(now)

    def _leave_home(self, now: float) -> None:
        if self._home.link is not None:
            self._context.events.append(Disconnected(self._home.server, CloseReason.UNTRUSTED))
        self._home.leave(now)

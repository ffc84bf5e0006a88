"""Whether a server that a client is told of belongs to its site: its authority has signed so."""

from __future__ import annotations

from nearcast.errors import TrustError, WireError
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.actions import Home
from nearcast.wire.codec import Refused
from nearcast.wire.messages import Redirect, Route, Way

__all__ = ["ServerCheck"]


class ServerCheck:
    """Checks what a home says of other servers, before a session is opened there.

    Parameters
    ----------
    authority
        The Ed25519 public key of the site's authority; empty: the home is believed.
    """

    def __init__(self, authority: bytes) -> None:
        self._trust = SiteTrust(authority) if authority else None

    def server(self, told: Redirect | Way | Route, now: float) -> Home:
        """Return the server; Refused when it is none, or not one of the site."""
        try:
            home = Home((told.host, told.port), told.server_key, told.credential)
        except WireError:
            raise Refused("unusable_server") from None
        try:
            self.check(home, now)
        except TrustError:
            raise Refused("untrusted_server") from None
        return home

    def check(self, home: Home, now: float) -> None:
        """Raise TrustError when the authority does not stand behind a server."""
        if self._trust is None:
            return
        credential = self._trust.server(home.credential, now)
        if (credential.role, credential.public_key) != ("edge", home.server_key):
            raise TrustError("the credential is of another server")

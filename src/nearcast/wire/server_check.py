"""Whether a server that a client is told of belongs to its site: its authority has signed so."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.errors import TrustError, WireError
from nearcast.trust.credentials import ServerCredential
from nearcast.trust.revoked_servers import RevokedServers, SignedPage
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.actions import Home
from nearcast.wire.codec import Refused
from nearcast.wire.messages import Redirect, Route, Way

__all__ = ["ServerCheck"]

_AT_ANY_TIME = 0.0


class ServerCheck:
    """Checks what is said of servers, before a session is opened there and while there is one.

    Parameters
    ----------
    authority
        The Ed25519 public key of the site's authority; empty: the home is believed.
    revoked
        Pages of the list of revoked servers, from a file; those that do not count are left out.
    """

    def __init__(self, authority: bytes, revoked: Iterable[SignedPage] = ()) -> None:
        self._trust = SiteTrust(authority) if authority else None
        self._revoked = RevokedServers(authority)
        for document, signer in revoked if authority else ():
            try:
                self._revoked.learn(document, signer, _AT_ANY_TIME)
            except TrustError:
                continue

    @property
    def has_authority(self) -> bool:
        """Whether there is a key to check anything by."""
        return self._trust is not None

    @property
    def revoked(self) -> tuple[SignedPage, ...]:
        """What is known of revoked servers, to be kept."""
        return self._revoked.pages

    def learn(self, document: bytes, signer: bytes, now: float) -> bool:
        """Take a page of the list of revoked servers; tell whether it is new."""
        if self._trust is None:
            return False  # who believes its home in all has nobody to check the list by
        try:
            return self._revoked.learn(document, signer, now)
        except TrustError:
            raise Refused("untrusted_list") from None

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
        self._revoked.check(self._credential(self._trust, home, now))

    def is_revoked(self, home: Home) -> bool:
        """Tell whether a server must not be gone to, whatever the time is.

        One without a credential is the word of the one who wrote the client's file.
        """
        if self._trust is None or not home.credential:
            return False
        try:
            self.check(home, _AT_ANY_TIME)
        except TrustError:
            return True
        return False

    def counts(self, home: Home, now: float) -> bool:
        """Tell whether a server has shown a credential that counts, by the client's clock."""
        if self._trust is None or not home.credential:
            return False
        try:
            self.check(home, now)
        except TrustError:
            return False
        return True

    @staticmethod
    def _credential(trust: SiteTrust, home: Home, now: float) -> ServerCredential:
        credential = trust.server(home.credential, now)
        if (credential.role, credential.public_key) != ("edge", home.server_key):
            raise TrustError("the credential is of another server")
        return credential

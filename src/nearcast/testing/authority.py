"""An authority for tests and simulations: signs at once whatever is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from nearcast.errors import TrustError
from nearcast.trust.credentials import (
    ClientCredential,
    ServerCredential,
    Validity,
    issue_client,
    issue_server,
)
from nearcast.trust.revocations import (
    Revocation,
    RevocationList,
    issue_revocations,
    issue_revoked_servers,
)
from nearcast.trust.rights import EVERYTHING, Rights
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.handshake_gate import Admit

__all__ = ["ALWAYS", "SmallAuthority", "admit_keys"]

ALWAYS = Validity(0, 1 << 40)
"""Of a credential that never expires."""


class Revoked(TypedDict):
    """Fields of orders."""

    revocations: bytes
    revoked_servers: tuple[bytes, ...]


class SmallAuthority:
    """An authority with a key that is no secret."""

    def __init__(self, seed: bytes = bytes(32)) -> None:
        self.key = SigningKey(seed)

    def trust(self) -> SiteTrust:
        """Return what a server of this authority begins with."""
        return SiteTrust(self.key.public_key)

    def client(
        self,
        name: str,
        public_key: bytes,
        rights: Rights = EVERYTHING,
        serial: int = 1,
        validity: Validity = ALWAYS,
    ) -> bytes:
        """Return the signed credential of a client."""
        credential = ClientCredential(name, public_key, serial, validity, rights)
        return issue_client(self.key, credential)

    def server(
        self, name: str, public_key: bytes, validity: Validity = ALWAYS, serial: int = 1
    ) -> bytes:
        """Return the signed credential of an edge server."""
        return issue_server(self.key, ServerCredential(name, "edge", public_key, serial, validity))

    def revoked_servers(self, *names: str, version: int = 1) -> Revoked:
        """Return what orders say when the first credentials of servers no longer count."""
        entries = tuple(Revocation("server", name, 2, ALWAYS.until_s) for name in names)
        found = RevocationList(version, 0, entries)
        return {
            "revocations": issue_revocations(self.key, found),
            "revoked_servers": issue_revoked_servers(self.key, found),
        }


def admit_keys(keys: Mapping[bytes, str], rights: Rights = EVERYTHING) -> Admit:
    """Return what lets in the owners of these public keys, whatever they show."""

    def admit(_credential: bytes, public_key: bytes, _now: float) -> ClientCredential:
        if public_key not in keys:
            raise TrustError("no client has this key")
        return ClientCredential(keys[public_key], public_key, 1, ALWAYS, rights)

    return admit

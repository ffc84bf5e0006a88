"""What a server asks about a document: whether the authority stands behind it, and still does."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TypeVar

from nearcast.errors import TrustError
from nearcast.trust.credentials import (
    ClientCredential,
    ServerCredential,
    Signs,
    Validity,
    read_body,
)
from nearcast.trust.flow_publishers import is_flow_publisher
from nearcast.trust.revocations import Revocation, RevocationList
from nearcast.trust.signed import Kind, key_id, read_signed, verify

__all__ = ["SiteTrust"]

_CACHED = 10_000
"""Documents whose signature was found right, so that clients that come back cost no check."""
_SIGNS: dict[str, Signs] = {
    Kind.CLIENT: "clients",
    Kind.PLANE: "clients",
    Kind.ORDERS: "orders",
    Kind.REVOCATIONS: "revocations",
    Kind.REVOKED_SERVERS: "revocations",
}
T = TypeVar("T", ClientCredential, ServerCredential)


class SiteTrust:
    """The authority's public key, the keys that it lets sign, and what was revoked.

    Time is told by the caller and may be wrong: it only decides whether a credential has expired,
    and is never taken to be before the orders in force were signed. A clock that was never set
    keeps nobody out.
    """

    def __init__(self, authority_key: bytes) -> None:
        self.authority_key = authority_key
        """Ed25519, 32 bytes."""
        self.revocations = RevocationList()
        self.revocations_document = b""
        """The same as it was signed."""
        self._signers: dict[bytes, ServerCredential] = {}
        """Servers that may sign, by the id of their signing key."""
        self._signer_documents: dict[bytes, bytes] = {}
        """Their credentials as the authority signed them."""
        self._least_serials: dict[tuple[str, str], int] = {}
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._signed_s = 0
        """When the orders in force were signed."""

    def open(self, kind: str, data: bytes) -> bytes:
        """Return the body of a document that the authority, or one it lets sign, has signed."""
        document = read_signed(data)
        digest = hashlib.blake2b(data, key=kind.encode(), digest_size=32).digest()
        is_authority = document.signer == key_id(self.authority_key)
        signer = self._signers.get(document.signer)
        if is_authority:
            public_key = self.authority_key
        elif signer is not None and _SIGNS.get(kind) in signer.signs:
            self._check_revoked("server", signer.server, signer.serial)
            public_key = signer.signing_key
        else:
            raise TrustError("signed by a key that this site does not know")
        if digest not in self._verified:
            if not verify(document, kind, public_key):
                raise TrustError("the signature is wrong")
            self._verified[digest] = None
            if len(self._verified) > _CACHED:
                self._verified.popitem(last=False)
        return document.body

    def client(self, data: bytes, public_key: bytes, now_s: float) -> ClientCredential:
        """Return the credential that a client showed who has proved to own a key.

        Raises
        ------
        TrustError
            When it is another's, was not signed, has expired or was revoked.
        """
        credential = self.vouched(data, now_s)
        if credential.public_key != public_key:
            raise TrustError("the credential is of another key", "other_key")
        return credential

    def vouched(self, data: bytes, now_s: float) -> ClientCredential:
        """Return the credential of a client that has proved to own its key to another server."""
        credential = read_body(self.open(Kind.CLIENT, data), ClientCredential)
        if is_flow_publisher(credential.client):
            raise TrustError(f"{credential.client!r} is no id of a client")
        return self._valid("client", credential.client, credential, now_s)

    def server(self, data: bytes, now_s: float) -> ServerCredential:
        """Return a server's credential; TrustError when it does not count."""
        credential = read_body(self.open(Kind.SERVER, data), ServerCredential)
        return self._valid("server", credential.server, credential, now_s)

    def counts_as_server(self, data: bytes, now_s: float) -> bool:
        """Tell whether a server's credential counts."""
        try:
            self.server(data, now_s)
        except TrustError:
            return False
        return True

    def add_signer(self, data: bytes, now_s: float) -> ServerCredential:
        """Accept what a server signs, as far as its credential says; the manager's, say."""
        credential = self.server(data, now_s)
        if not credential.signs or len(credential.signing_key) != len(self.authority_key):
            raise TrustError(f"server {credential.server!r} signs nothing")
        known = self._signers.get(key_id(credential.signing_key))
        if known is None or known.serial < credential.serial:
            self._signers[key_id(credential.signing_key)] = credential
            self._signer_documents[key_id(credential.signing_key)] = data
        return credential

    def signer_of(self, data: bytes) -> tuple[ServerCredential | None, bytes]:
        """Return the server that signed a document and its credential as signed; none: nobody's."""
        name = read_signed(data).signer
        return self._signers.get(name), self._signer_documents.get(name, b"")

    def revoke(self, data: bytes) -> tuple[Revocation, ...]:
        """Take a list of revocations; return its entries, none when it is not newer."""
        found = read_body(self.open(Kind.REVOCATIONS, data), RevocationList)
        if found.version <= self.revocations.version:
            return ()
        self.revocations, self.revocations_document = found, data
        self._least_serials = {(one.kind, one.name): one.least_serial for one in found.entries}
        return found.entries

    def newer_list(self, told: bytes) -> bytes:
        """Return the signed list in force when somebody tells an older one, else nothing."""
        return self.revocations_document if self.revocations_document != told else b""

    def note_signed(self, at_s: int) -> None:
        """Note when the orders in force were signed: it is not earlier now.

        Later orders count even if they were signed at an earlier time: a signer whose clock was
        wrong once must be able to mend it.
        """
        self._signed_s = at_s

    def check(self, credential: ClientCredential, now_s: float) -> None:
        """Raise TrustError when a credential that was accepted no longer counts."""
        self._valid("client", credential.client, credential, now_s)

    def check_server(self, credential: ServerCredential, now_s: float) -> None:
        """Raise TrustError when a server's credential that was accepted no longer counts."""
        self._valid("server", credential.server, credential, now_s)

    def is_valid(self, credential: ClientCredential, now_s: float) -> bool:
        """Tell whether a credential that was accepted still counts."""
        try:
            self.check(credential, now_s)
        except TrustError:
            return False
        return True

    def _valid(self, kind: str, name: str, credential: T, now_s: float) -> T:
        self._check_revoked(kind, name, credential.serial)
        self._check_time(credential.validity, now_s)
        return credential

    def _check_revoked(self, kind: str, name: str, serial: int) -> None:
        if serial < self._least_serials.get((kind, name), 0):
            raise TrustError(f"the credential of {kind} {name!r} was revoked", "revoked")

    def _check_time(self, validity: Validity, now_s: float) -> None:
        if max(now_s, self._signed_s) >= validity.until_s:
            raise TrustError("the credential has expired", "expired")

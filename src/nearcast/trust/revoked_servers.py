"""What a client knows of servers that no longer count: signed pages, no matter who passes them on.

A credential that was revoked never counts again, so that pages are added up: an old one that is
shown again does no harm, and what is true of one page does not depend on having the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.errors import TrustError
from nearcast.trust.credentials import ServerCredential, read_body
from nearcast.trust.revocations import RevocationList
from nearcast.trust.signed import Kind
from nearcast.trust.site_trust import SiteTrust

__all__ = ["RevokedServers", "SignedPage"]

_MOST_PAGES = 256
"""Pages that are kept, some thousand servers; the oldest is forgotten first."""

SignedPage = tuple[bytes, bytes]
"""A page, and the credential of the server that signed it; empty: the authority did."""


@dataclass(frozen=True, slots=True)
class _Page:
    signer: ServerCredential | None
    signer_document: bytes
    version: int
    least_serials: dict[str, int]
    """By server; lower ones do not count."""

    def revokes(self, credential: ServerCredential) -> bool:
        return credential.serial < self.least_serials.get(credential.server, 0)


class RevokedServers:
    """Pages that the authority stands behind, and what they say together."""

    def __init__(self, authority_key: bytes) -> None:
        self._trust = SiteTrust(authority_key)
        self._pages: dict[bytes, _Page] = {}
        """By document, the oldest first."""

    @property
    def pages(self) -> tuple[SignedPage, ...]:
        """All that is known, to be kept in a file."""
        return tuple((document, page.signer_document) for document, page in self._pages.items())

    def learn(self, document: bytes, signer: bytes, now_s: float) -> bool:
        """Take a page; tell whether it is new. TrustError when it does not count."""
        if document in self._pages:
            return False
        if signer:
            self._trust.add_signer(signer, now_s)
        found = read_body(self._trust.open(Kind.REVOKED_SERVERS, document), RevocationList)
        least = {one.name: one.least_serial for one in found.entries if one.kind == "server"}
        page = _Page(*self._trust.signer_of(document), found.version, least)
        if page.signer is not None and page.revokes(page.signer):
            # who has the manager's old key cannot revoke the new one: the name is the same
            raise TrustError("the list revokes its own signer", "revoked")
        self._pages[document] = page
        self._drop_repeated()
        return True

    def check(self, credential: ServerCredential) -> None:
        """Raise TrustError when a server's credential was revoked."""
        pages = self._pages.values()
        for page in pages:
            signer = page.signer
            if page.revokes(credential) and not (
                signer is not None and any(one.revokes(signer) for one in pages)
            ):
                name = credential.server
                raise TrustError(f"the credential of server {name!r} was revoked", "revoked")

    def _drop_repeated(self) -> None:
        """Forget pages all of which newer ones say as well."""
        said: dict[tuple[bytes, str], tuple[int, int, bytes]] = {}
        for document, page in self._pages.items():
            for name, least in page.least_serials.items():
                key = (page.signer_document, name)
                said[key] = max(said.get(key, (0, 0, b"")), (least, page.version, document))
        needed = {document for _, _, document in said.values()}
        self._pages = {one: page for one, page in self._pages.items() if one in needed}
        while len(self._pages) > _MOST_PAGES:
            del self._pages[next(iter(self._pages))]

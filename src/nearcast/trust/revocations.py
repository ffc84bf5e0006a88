"""Revocations: credentials that no longer count although they have not expired."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nearcast.trust.signed import Kind, SigningKey

__all__ = [
    "ALL_SERIALS",
    "Revocation",
    "RevocationList",
    "issue_revocations",
    "issue_revoked_servers",
    "revoke",
]

ALL_SERIALS = 1 << 62
"""As least serial: no credential of this name counts any more."""
_LARGEST = 1 << 62
_PAGE_BYTES = 400
"""Of the entries of one page for clients: with both signatures it fits into a datagram."""


class Revocation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Credentials of one client or server."""

    kind: Literal["client", "server"]
    name: str
    least_serial: Annotated[int, Meta(ge=1, le=_LARGEST)]
    """Lower ones do not count."""
    until_s: Annotated[int, Meta(ge=0, le=1 << 40)]
    """When the last credential that it concerns expires: the entry may go then."""


class RevocationList(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All revocations of a site; a higher version replaces a lower one."""

    version: Annotated[int, Meta(ge=0, le=_LARGEST)] = 0
    issued_s: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    entries: tuple[Revocation, ...] = ()


def revoke(known: RevocationList, entries: Iterable[Revocation], now_s: int) -> RevocationList:
    """Return the next version of a list: entries added, expired ones left out."""
    merged = {(one.kind, one.name): one for one in known.entries if one.until_s > now_s}
    for one in entries:
        before = merged.get((one.kind, one.name))
        if before is not None:
            one = Revocation(
                one.kind,
                one.name,
                max(one.least_serial, before.least_serial),
                max(one.until_s, before.until_s),
            )
        merged[one.kind, one.name] = one
    return RevocationList(known.version + 1, now_s, tuple(merged.values()))


def issue_revocations(key: SigningKey, revocations: RevocationList) -> bytes:
    """Return a signed list."""
    return key.sign(Kind.REVOCATIONS, msgspec.msgpack.encode(revocations))


def issue_revoked_servers(key: SigningKey, revocations: RevocationList) -> tuple[bytes, ...]:
    """Return what clients need of a list: its servers, in signed pages that each stand alone."""
    pages: list[list[Revocation]] = []
    size = _PAGE_BYTES
    for one in revocations.entries:
        if one.kind != "server":
            continue
        entry_bytes = len(msgspec.msgpack.encode(one))
        if size + entry_bytes > _PAGE_BYTES:
            pages.append([])
            size = 0
        pages[-1].append(one)
        size += entry_bytes
    return tuple(
        key.sign(
            Kind.REVOKED_SERVERS,
            msgspec.msgpack.encode(
                RevocationList(revocations.version, revocations.issued_s, tuple(page))
            ),
        )
        for page in pages
    )

"""Pages of the list of revoked servers, as a client takes them from anybody."""

from __future__ import annotations

import pytest

from nearcast.errors import TrustError
from nearcast.trust.credentials import ServerCredential, Signs, Validity, issue_server
from nearcast.trust.revocations import (
    ALL_SERIALS,
    Revocation,
    RevocationList,
    issue_revocations,
    issue_revoked_servers,
)
from nearcast.trust.revoked_servers import RevokedServers
from nearcast.trust.signed import SigningKey

AUTHORITY = SigningKey(b"a" * 32)
OLD, NEW = SigningKey(b"o" * 32), SigningKey(b"n" * 32)
VALID = Validity(1_000, 2_000)
NOW_S = 1_500.0


def _edge(name: str, serial: int = 1) -> ServerCredential:
    return ServerCredential(name, "edge", b"e" * 32, serial, VALID)


def _manager(key: SigningKey, serial: int, *signs: Signs) -> bytes:
    credential = ServerCredential(
        "manager", "manager", b"x" * 32, serial, VALID, key.public_key, signs
    )
    return issue_server(AUTHORITY, credential)


OLD_MANAGER = _manager(OLD, 1, "revocations")
NEW_MANAGER = _manager(NEW, 2, "revocations")


def _page(key: SigningKey, version: int = 1, **least_serials: int) -> bytes:
    entries = tuple(
        Revocation("server", name, least, 9_000) for name, least in least_serials.items()
    )
    (page,) = issue_revoked_servers(key, RevocationList(version, 0, entries))
    return page


def _counts(known: RevokedServers, name: str, serial: int = 1) -> bool:
    try:
        known.check(_edge(name, serial))
    except TrustError:
        return False
    return True


def test_the_authority_and_the_manager_revoke_lower_serials() -> None:
    known = RevokedServers(AUTHORITY.public_key)
    assert known.learn(_page(AUTHORITY, e1=5), b"", NOW_S)
    assert known.learn(_page(NEW, e2=5), NEW_MANAGER, NOW_S)
    for name in ("e1", "e2"):
        assert not _counts(known, name, 4)
        assert _counts(known, name, 5)
    assert _counts(known, "e3")


def test_an_older_list_takes_nothing_back() -> None:
    known = RevokedServers(AUTHORITY.public_key)
    known.learn(_page(NEW, 7, e1=5, e2=9), NEW_MANAGER, NOW_S)
    known.learn(_page(NEW, 6, e1=3), NEW_MANAGER, NOW_S)
    known.learn(_page(NEW, 8, e3=2), NEW_MANAGER, NOW_S)
    assert not any((_counts(known, "e1", 4), _counts(known, "e2", 8), _counts(known, "e3")))
    assert len(known.pages) == 2  # what version 6 says, version 7 says as well
    assert not known.learn(_page(NEW, 8, e3=2), NEW_MANAGER, NOW_S)


@pytest.mark.parametrize(
    ("page", "signer"),
    [
        (b"", b""),
        (b"nonsense", b""),
        (_page(NEW, e1=5), b""),
        (_page(NEW, e1=5), b"nonsense"),
        (_page(NEW, e1=5), OLD_MANAGER),
        (_page(NEW, e1=5), _manager(NEW, 2, "orders", "clients")),
        (_page(NEW, e1=5), issue_server(AUTHORITY, _edge("e1"))),
        (issue_revocations(NEW, RevocationList(1, 0)), NEW_MANAGER),
        (_page(NEW, manager=ALL_SERIALS), NEW_MANAGER),
    ],
)
def test_what_nobody_signed_who_may_does_not_count(page: bytes, signer: bytes) -> None:
    known = RevokedServers(AUTHORITY.public_key)
    with pytest.raises(TrustError):
        known.learn(page, signer, NOW_S)
    assert known.pages == ()
    assert _counts(known, "e1")


def test_a_signer_whose_credential_has_ended_revokes_nobody() -> None:
    with pytest.raises(TrustError, match="expired"):
        RevokedServers(AUTHORITY.public_key).learn(_page(NEW, e1=5), NEW_MANAGER, 3_000.0)


@pytest.mark.parametrize("old_first", [True, False])
def test_what_a_stolen_key_of_the_manager_revoked_counts_again(old_first: bool) -> None:
    known = RevokedServers(AUTHORITY.public_key)
    said = [
        (_page(OLD, 1 << 60, e1=ALL_SERIALS), OLD_MANAGER),
        (_page(NEW, manager=2), NEW_MANAGER),
    ]
    for page, signer in said if old_first else said[::-1]:
        known.learn(page, signer, NOW_S)
    assert _counts(known, "e1")
    with pytest.raises(TrustError, match="own signer"):  # and it cannot strike back
        known.learn(_page(OLD, 1 << 61, manager=3), OLD_MANAGER, NOW_S)
    later = RevokedServers(AUTHORITY.public_key)
    for page, signer in known.pages:
        later.learn(page, signer, NOW_S)
    assert _counts(later, "e1")


def test_pages_are_small_and_have_servers_only() -> None:
    entries = [Revocation("client", f"c{number}", 5, 9_000) for number in range(1_000)]
    entries += [Revocation("server", f"e{number}", 5, 9_000) for number in range(100)]
    pages = issue_revoked_servers(AUTHORITY, RevocationList(3, 0, tuple(entries)))
    assert max(map(len, pages)) < 550
    known = RevokedServers(AUTHORITY.public_key)
    for page in pages:
        known.learn(page, b"", NOW_S)
    assert not any(_counts(known, f"e{number}") for number in range(100))
    assert issue_revoked_servers(AUTHORITY, RevocationList(3, 0, tuple(entries[:9]))) == ()

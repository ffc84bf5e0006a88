"""Documents of a site's authority: what counts, and what does not."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import ConfigError, TrustError
from nearcast.trust.credentials import (
    ClientCredential,
    ServerCredential,
    Signs,
    Validity,
    issue_client,
    issue_server,
)
from nearcast.trust.revocations import (
    ALL_SERIALS,
    Revocation,
    RevocationList,
    issue_revocations,
    revoke,
)
from nearcast.trust.rights import EVERYTHING, NOTHING, Rights, refusal
from nearcast.trust.signed import Kind, SigningKey
from nearcast.trust.site_trust import SiteTrust
from nearcast.trust.topic_pattern import matches

AUTHORITY = SigningKey(b"a" * 32)
MANAGER = SigningKey(b"m" * 32)
VALID = Validity(1_000, 2_000)
CAR_KEY = b"c" * 32


def _car(serial: int = 1, rights: Rights = EVERYTHING) -> ClientCredential:
    return ClientCredential("car", CAR_KEY, serial, VALID, rights)


def _manager(*signs: Signs, serial: int = 1) -> bytes:
    credential = ServerCredential(
        "manager", "manager", b"x" * 32, serial, VALID, MANAGER.public_key, signs
    )
    return issue_server(AUTHORITY, credential)


def _trust() -> SiteTrust:
    return SiteTrust(AUTHORITY.public_key)


def test_what_the_authority_signed_counts_until_it_expires() -> None:
    trust, shown = _trust(), issue_client(AUTHORITY, _car())
    assert trust.client(shown, CAR_KEY, 1_999) == _car()
    with pytest.raises(TrustError, match="expired"):
        trust.client(shown, CAR_KEY, 2_000)


def test_a_clock_that_was_never_set_keeps_nobody_out_and_lets_nothing_revoked_in() -> None:
    trust, shown = _trust(), issue_client(AUTHORITY, _car())
    assert trust.client(shown, CAR_KEY, 0.0) == _car()
    trust.note_signed(2_000)
    with pytest.raises(TrustError, match="expired"):  # the orders were signed later than that
        trust.client(shown, CAR_KEY, 0.0)


def test_a_manager_whose_clock_was_far_ahead_once_locks_nobody_out_for_good() -> None:
    trust, shown = _trust(), issue_client(AUTHORITY, _car())
    trust.note_signed(1 << 39)
    trust.revoke(issue_revocations(AUTHORITY, RevocationList(1, 1 << 39)))
    with pytest.raises(TrustError, match="expired"):
        trust.client(shown, CAR_KEY, 1_500)
    trust.note_signed(1_500)  # by its next orders
    assert trust.client(shown, CAR_KEY, 1_500) == _car()


def test_a_credential_of_another_key_is_refused() -> None:
    with pytest.raises(TrustError, match="another key"):
        _trust().client(issue_client(AUTHORITY, _car()), b"d" * 32, 1_500)


def test_a_stranger_signs_nothing_and_a_server_only_what_it_may() -> None:
    trust = _trust()
    by_manager = issue_client(MANAGER, _car())
    with pytest.raises(TrustError, match="does not know"):
        trust.client(by_manager, CAR_KEY, 1_500)
    trust.add_signer(_manager("orders"), 1_500)
    with pytest.raises(TrustError, match="does not know"):
        trust.client(by_manager, CAR_KEY, 1_500)
    assert trust.open(Kind.ORDERS, MANAGER.sign(Kind.ORDERS, b"go")) == b"go"
    trust.add_signer(_manager("orders", "clients", serial=2), 1_500)
    assert trust.client(by_manager, CAR_KEY, 1_500) == _car()
    with pytest.raises(TrustError, match="does not know"):  # servers are the authority's alone
        trust.server(issue_server(MANAGER, ServerCredential("e", "edge", CAR_KEY, 1, VALID)), 1)


def test_one_kind_of_document_is_not_shown_as_another() -> None:
    trust = _trust()
    body = msgspec.msgpack.encode(_car())
    assert trust.open(Kind.CLIENT, AUTHORITY.sign(Kind.CLIENT, body)) == body
    with pytest.raises(TrustError, match="signature"):
        trust.open(Kind.CLIENT, AUTHORITY.sign(Kind.SERVER, body))
    # also when the first one has been found right before
    both = AUTHORITY.sign(Kind.CLIENT, body)
    with pytest.raises(TrustError, match="signature"):
        trust.open(Kind.ORDERS, both)


def test_revocations_name_the_least_serial_and_only_rise() -> None:
    trust = _trust()
    first = revoke(RevocationList(), [Revocation("client", "car", 2, 2_000)], 1_100)
    assert trust.revoke(issue_revocations(AUTHORITY, first)) == first.entries
    with pytest.raises(TrustError, match="revoked"):
        trust.client(issue_client(AUTHORITY, _car(1)), CAR_KEY, 1_500)
    assert trust.client(issue_client(AUTHORITY, _car(2)), CAR_KEY, 1_500).serial == 2
    second = revoke(first, [Revocation("client", "car", ALL_SERIALS, 2_000)], 1_200)
    trust.revoke(issue_revocations(AUTHORITY, second))
    assert not trust.is_valid(_car(99), 1_500)
    assert trust.revoke(issue_revocations(AUTHORITY, first)) == ()  # an old list changes nothing
    assert not trust.is_valid(_car(99), 1_500)
    assert revoke(second, [], 2_000).entries == ()  # expired with what it concerns


def test_a_revoked_manager_signs_nothing_more() -> None:
    trust = _trust()
    trust.add_signer(_manager("clients"), 1_500)
    shown = issue_client(MANAGER, _car())
    assert trust.client(shown, CAR_KEY, 1_500) == _car()
    gone = revoke(RevocationList(), [Revocation("server", "manager", 2, 2_000)], 1_100)
    trust.revoke(issue_revocations(AUTHORITY, gone))
    with pytest.raises(TrustError, match="revoked"):
        trust.client(shown, CAR_KEY, 1_500)


def test_damaged_documents_are_refused_whatever_is_damaged() -> None:
    rng, shown = random.Random(7), issue_client(AUTHORITY, _car())
    for _ in range(2_000):
        damaged = bytearray(shown)
        damaged[rng.randrange(len(shown))] ^= 1 << rng.randrange(8)
        with pytest.raises(TrustError):
            _trust().client(bytes(damaged), CAR_KEY, 1_500)
    for size in range(len(shown)):
        with pytest.raises(TrustError):
            _trust().client(shown[:size], CAR_KEY, 1_500)


@given(st.binary(max_size=300))
def test_anything_may_be_shown(data: bytes) -> None:
    with pytest.raises(TrustError):
        _trust().client(data, CAR_KEY, 1_500)


def test_rights_are_patterns_and_none_means_nothing() -> None:
    rights = Rights(("traffic/+/north",), ("city/#",))
    assert refusal(rights, "publish", "traffic/a/north") is None
    assert refusal(rights, "publish", "city/a") == "no right to publish 'city/a'"
    assert refusal(rights, "subscribe", "city") is None
    assert refusal(rights, "subscribe", "city/+/b") is None
    assert refusal(rights, "subscribe", "#") is not None  # wider than what is allowed
    assert refusal(NOTHING, "publish", "a") is not None
    with pytest.raises(ConfigError, match="pattern"):
        Rights(("a/#/b",))


_LEVEL = st.sampled_from(["a", "b", "+"])
_PATTERN = st.tuples(st.lists(_LEVEL, max_size=3), st.booleans()).map(
    lambda parts: "/".join([*parts[0], *(["#"] if parts[1] or not parts[0] else [])])
)


@given(_PATTERN, _PATTERN, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4))
def test_a_pattern_inside_another_matches_nothing_beyond_it(
    wide: str, narrow: str, levels: list[str]
) -> None:
    topic = "/".join(levels)
    if matches(wide, narrow) and matches(narrow, topic):
        assert matches(wide, topic)


def test_a_credential_that_fits_into_no_datagram_is_refused_when_it_is_made() -> None:
    rights = Rights(tuple(f"{'x' * 100}/{n}" for n in range(10)))
    with pytest.raises(TrustError, match="topic patterns"):
        issue_client(AUTHORITY, _car(rights=rights))

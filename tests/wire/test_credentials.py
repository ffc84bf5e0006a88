"""What a client has to show before a server has a session for it."""

from __future__ import annotations

import pytest

from nearcast.errors import ConfigError, WireError
from nearcast.sdk.credentials import Credentials
from nearcast.testing.authority import SmallAuthority
from nearcast.trust.credentials import CREDENTIAL_BYTES, Validity
from nearcast.trust.revocations import (
    ALL_SERIALS,
    Revocation,
    RevocationList,
    issue_revocations,
    revoke,
)
from nearcast.trust.rights import Rights
from nearcast.wire.actions import SendDatagram, SessionOpened
from nearcast.wire.client_session import ClientSession
from nearcast.wire.framing import check_credential_fits
from nearcast.wire.noise import public_key
from wire.world import START, World

AUTHORITY = SmallAuthority()
RIGHTS = Rights(publish=("traffic/#",))


def _show(
    world: World, credential: bytes, key: bytes, *, now: float = START
) -> tuple[dict[str, int], int]:
    """Return what a server refused, and how many sessions it opened, after an INIT."""
    trust = AUTHORITY.trust()
    revocations = revoke(RevocationList(), [Revocation("client", "bad", ALL_SERIALS, 1 << 40)], 0)
    trust.revoke(issue_revocations(AUTHORITY.key, revocations))
    world.admit, world.now = trust.client, now
    server = world.add_server()
    session = ClientSession(key, server.home, world.random.randbytes, None, credential)
    session.connect(now)
    opened: list[SessionOpened] = []
    for _ in range(2):  # the INIT, and what shows that the answer arrived
        sent = [one.data for one in session.poll(now) if isinstance(one, SendDatagram)]
        events = server.sessions.receive([(one, ("10.0.0.1", 1)) for one in sent], now)
        opened += [one for one in events if isinstance(one, SessionOpened)]
        session.receive([reply.data for reply in server.sessions.flush(now)], now)
    assert all(one.credential.rights == RIGHTS for one in opened)
    return dict(server.sessions.drops), len(opened)


def test_a_signed_credential_of_the_own_key_opens_a_session_with_its_rights() -> None:
    key = bytes(range(32))
    credential = AUTHORITY.client("car", public_key(key), RIGHTS)
    assert _show(World(1), credential, key) == ({}, 1)


@pytest.mark.parametrize("reason", ["not_signed", "other_key", "expired", "revoked", "malformed"])
def test_any_other_one_gets_no_answer_and_is_counted_by_its_reason(reason: str) -> None:
    key, other = bytes(range(32)), bytes(range(1, 33))
    mine = public_key(key)
    stranger = SmallAuthority(b"\1" * 32)
    credential = {
        "not_signed": stranger.client("car", mine, RIGHTS),
        "other_key": AUTHORITY.client("car", public_key(other), RIGHTS),
        "expired": AUTHORITY.client("car", mine, RIGHTS, validity=Validity(0, int(START))),
        "revoked": AUTHORITY.client("bad", mine, RIGHTS, serial=7),
        "malformed": b"car",
    }[reason]
    counted = "not_signed" if reason == "malformed" else reason
    assert _show(World(1), credential, key) == ({counted: 1}, 0)


def test_the_largest_credential_fits_the_first_datagram() -> None:
    rights = Rights(tuple(f"{'x' * 43}/{number}" for number in range(15)))
    key = bytes(range(32))
    credential = AUTHORITY.client("c" * 30, public_key(key), rights)
    assert CREDENTIAL_BYTES - 100 < len(credential) <= CREDENTIAL_BYTES
    check_credential_fits(CREDENTIAL_BYTES, 1_200)
    world = World(1)
    home = world.add_server().home
    session = ClientSession(key, home, world.random.randbytes, None, bytes(CREDENTIAL_BYTES))
    session.connect(START)
    (init,) = session.poll(START)
    assert isinstance(init, SendDatagram)
    assert len(init.data) <= 1_200
    with pytest.raises(WireError, match="exceeds"):
        check_credential_fits(CREDENTIAL_BYTES, 1_000)
    with pytest.raises(ConfigError, match="credential: "):
        Credentials("car", key, home, credential=bytes(CREDENTIAL_BYTES), datagram_limit=1_000)

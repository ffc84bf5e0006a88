"""Enrolment: who gets a credential, with which rights, at which home."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nearcast.errors import ConfigError, TrustError
from nearcast.server.enrolment import (
    EnrolledClient,
    Enroller,
    Enrolment,
    EnrolmentRules,
    rehomed,
)
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.revocations import Revocation, RevocationList
from nearcast.trust.rights import EVERYTHING, NOTHING, Rights, within
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust

NOW = 1.7e9
SIGNER = SigningKey(b"s" * 32)
GRANTED = Rights(("a/#",), ("#",), 10.0, 500)
PLANNED = {"a": "e1", "b": "e2"}


def server(name: str, x_km: float, client_limit: float = math.inf) -> SiteServer:
    return SiteServer(ServerOrder(name, "h", 1, b""), (x_km, 0.0), client_limit=client_limit)


SERVERS = {
    "e1": server("e1", 0.0, 2),
    "e2": server("e2", 10.0, 2),
    "cloud": SiteServer(ServerOrder("cloud", "", 0, b"")),
}


def key(text: str) -> bytes:
    return text.encode().ljust(32, b".")


class Desk:
    """An enroller and the clients that it has enrolled."""

    def __init__(self) -> None:
        self.clients: dict[str, EnrolledClient] = {}
        self.revoked = RevocationList()
        self._enroller = Enroller(self, SIGNER, EnrolmentRules(GRANTED, 10.0))

    def enrolled(self, client: str) -> EnrolledClient | None:
        return self.clients.get(client)

    def owner_of(self, public_key: bytes) -> str | None:
        owners = {one.public_key: one.client for one in self.clients.values()}
        return owners.get(public_key)

    def planned_home(self, client: str) -> str | None:
        return PLANNED.get(client)

    def enrol(
        self, *asked: Enrolment, now: float = NOW, is_operator: bool = False
    ) -> tuple[list[EnrolledClient], list[Revocation]]:
        taken = [*PLANNED.values(), *(c.home for n, c in self.clients.items() if n not in PLANNED)]
        homes = HomeChoice(SERVERS, {name: taken.count(name) for name in SERVERS})
        made, revoked = self._enroller.enrol(
            asked, homes, self.revoked, now, is_operator=is_operator
        )
        self.clients.update((one.client, one) for one in made)
        return made, revoked


def test_a_client_gets_a_credential_with_what_the_site_grants() -> None:
    (made,), revoked = Desk().enrol(Enrolment("a", key("a")))
    trust = SiteTrust(SIGNER.public_key)
    credential = trust.client(made.credential, key("a"), NOW + 10 * 86_400 - 1)
    assert (credential.client, credential.rights, revoked) == ("a", GRANTED, [])
    with pytest.raises(TrustError, match="expired"):
        trust.client(made.credential, key("a"), NOW + 10 * 86_400)


def test_less_may_be_asked_for_and_not_more() -> None:
    desk = Desk()
    (made,), _ = desk.enrol(Enrolment("a", key("a"), rights=Rights(("a/b",), (), 5.0)))
    assert made.rights == Rights(("a/b",), (), 5.0, 500)  # limits that were not asked for are set
    for rights, complaint in (
        (Rights(("b",)), "no right to publish 'b'"),
        (Rights(("#",)), "no right to publish '#'"),
        (Rights((), (), 11.0), "messages_per_s 11: an enrolment token grants 10"),
    ):
        with pytest.raises(TrustError, match=complaint):
            desk.enrol(Enrolment("b", key("b"), rights=rights))
    (made,), _ = desk.enrol(Enrolment("b", key("b"), rights=EVERYTHING), is_operator=True)
    assert made.rights == EVERYTHING


def test_only_an_operator_replaces_a_key_and_the_old_one_ends() -> None:
    desk = Desk()
    (old,), _ = desk.enrol(Enrolment("a", key("a")))
    with pytest.raises(TrustError, match="only an operator"):
        desk.enrol(Enrolment("a", key("thief")))
    (same,), revoked = desk.enrol(Enrolment("a", key("a")), now=NOW - 9)  # a clock set back
    assert (same.serial > old.serial, same.rights, revoked) == (True, old.rights, [])
    (new,), revoked = desk.enrol(Enrolment("a", key("new")), is_operator=True)
    assert revoked == [Revocation("client", "a", new.serial, same.until_s)]
    assert new.serial > same.serial


def test_a_token_of_enrolment_takes_no_rights_from_a_client_and_makes_none_last_longer() -> None:
    desk = Desk()
    desk.enrol(Enrolment("a", key("a"), rights=EVERYTHING), is_operator=True)
    for rights in (NOTHING, Rights(("a/b",)), GRANTED):
        with pytest.raises(TrustError, match="only an operator's token changes them"):
            desk.enrol(Enrolment("a", key("a"), rights=rights))
    (same,), revoked = desk.enrol(Enrolment("a", key("a")))
    assert (same.rights, revoked) == (EVERYTHING, [])
    with pytest.raises(TrustError, match="grants 10 days"):
        desk.enrol(Enrolment("b", key("b"), days=11.0))


def test_a_limit_that_the_site_leaves_to_the_servers_cannot_be_asked_for() -> None:
    """Theirs may be lower."""
    for asked in (Rights(messages_per_s=1e9), Rights(payload_bytes=9), Rights(topics=9)):
        with pytest.raises(TrustError, match="an enrolment token does not set it"):
            within(asked, Rights(("#",)))


def test_other_rights_end_the_credential_before() -> None:
    desk = Desk()
    desk.enrol(Enrolment("a", key("a")))
    (new,), revoked = desk.enrol(
        Enrolment("a", key("a"), rights=Rights(("a/b",))), is_operator=True
    )
    assert [one.least_serial for one in revoked] == [new.serial]


def test_only_an_operator_brings_back_what_was_revoked() -> None:
    desk = Desk()
    (made,), _ = desk.enrol(Enrolment("a", key("a")))
    least = made.serial + 10**9
    entries = (Revocation("client", "a", least, 1 << 40), Revocation("client", "n", 5, 1 << 40))
    desk.revoked = RevocationList(1, 0, entries)
    for asked in (Enrolment("a", key("a")), Enrolment("n", key("n"), (0.0, 0.0))):
        with pytest.raises(TrustError, match="was revoked"):
            desk.enrol(asked)
    (again,), _ = desk.enrol(Enrolment("a", key("a")), is_operator=True)
    assert again.serial >= least


def test_a_client_of_the_plan_gets_its_home_there_and_others_the_nearest_with_room() -> None:
    asked = [Enrolment(name, key(name), (1.0, 0.0)) for name in ("n1", "n2", "n3")]
    enrolled, _ = Desk().enrol(Enrolment("a", key("a")), *asked)
    # e1 has room for two: a, who is in the plan, and n1; e2 for b and n2; then all are full
    assert [one.home for one in enrolled] == ["e1", "e1", "e2", "e1"]


def test_a_client_that_moves_gives_its_room_to_another() -> None:
    desk = Desk()
    desk.enrol(Enrolment("n1", key("n1"), (1.0, 0.0)))
    (moved,), _ = desk.enrol(Enrolment("n1", key("n1"), (9.0, 0.0)))
    assert moved.home == "e2"
    (stays,), _ = desk.enrol(Enrolment("n1", key("n1")))
    assert stays.home == "e2"
    (other,), _ = desk.enrol(Enrolment("n2", key("n2"), (1.0, 0.0)))
    assert other.home == "e1"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (Enrolment("n", key("n")), "'n' is not in the scenario: its place is needed"),
        (Enrolment("n", b"short", (0.0, 0.0)), "has 5 bytes, not 32"),
        (Enrolment("", key("n"), (0.0, 0.0)), "1 to 255 bytes"),
        (Enrolment("n", key("n"), (math.nan, 0.0)), "not finite"),
        (Enrolment("b", key("a")), "public key of client 'b' is another client's"),
        (Enrolment("b", key("b"), days=1e6), "up to 3650 days"),
    ],
)
def test_a_client_that_cannot_be_let_in_is_refused(asked: Enrolment, complaint: str) -> None:
    desk = Desk()
    desk.enrol(Enrolment("a", key("a")))
    with pytest.raises(ConfigError, match=complaint):
        desk.enrol(Enrolment("fine", key("fine"), (0.0, 0.0)), asked, is_operator=True)
    assert list(desk.clients) == ["a"]


def test_a_client_whose_home_is_gone_gets_another() -> None:
    homes = HomeChoice(SERVERS, {})
    lost = EnrolledClient("n", key("n"), "gone", (9.0, 0.0))
    assert rehomed(lost, homes) == replace(lost, home="e2")
    assert rehomed(replace(lost, place_km=None), homes).home == "e1"

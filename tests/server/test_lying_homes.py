"""A home that lies to its clients about other servers: they open sessions within their site only."""

from __future__ import annotations

import pytest

from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.credentials import Validity
from nearcast.wire.actions import Home
from nearcast.wire.messages import Redirect, Route, Way
from nearcast.wire.noise import public_key

EVIL_KEY = public_key(b"evil" * 8)
STRANGER = SmallAuthority(b"\1" * 32)


class OneHome:
    """A car at e1; e2 is another server of its site."""

    def __init__(self) -> None:
        self.site = SimulatedSite(5)
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.car: SimulatedClient = self.site.add_client("car", "e1")
        order = ClientOrder("car", "e1")
        self.site.obey(Orders(1, 1, "", self.site.server_orders(), (), (order,)))
        self.site.connect([self.car])
        self.site.run(2.0)

    def hear(self, told: Redirect | Way | Route) -> None:
        node = self.site.servers["e1"].node
        assert node is not None
        assert node.sessions is not None
        node.sessions._queue(node.sessions._table.by_client["car"], told)
        self.site.servers["e1"].do(node.on_timer(self.site.now))
        self.site.run(1.0)


def _said(key: bytes, credential: bytes) -> list[Redirect | Way | Route]:
    where = ("evil", 7000, key, credential)
    return [Redirect(*where), Way(0, 1, *where), Route("t", *where)]


def _credentials() -> dict[str, bytes]:
    authority = SimulatedSite(5).authority
    return {
        "none": b"",
        "nonsense": b"nonsense",
        "of a stranger": STRANGER.server("e2", EVIL_KEY),
        "of another key": authority.server("e2", public_key(b"e2e2" * 8)),
        "expired": authority.server("e2", EVIL_KEY, Validity(0, 1)),
        "of a client": authority.client("e2", EVIL_KEY),
    }


@pytest.mark.parametrize("which", list(_credentials()))
def test_a_server_without_a_credential_of_the_authority_is_not_gone_to(which: str) -> None:
    made = OneHome()
    made.site.is_overheard = True
    ways = made.car.session.servers
    for told in _said(EVIL_KEY, _credentials()[which]):
        made.hear(told)
    assert made.car.session.drops["untrusted_server"] == 3
    assert made.car.session.servers == ways
    assert made.car.session.home.address == ("e1", 7000)
    assert not [one for _, target, one in made.site.overheard if target[0] == "evil"]


def test_a_server_of_the_site_is_gone_to_and_kept_with_its_credential() -> None:
    made = OneHome()
    (way,) = made.car.session.servers
    assert way == Home(("e2", 7000), made.site.servers["e2"].home.server_key)
    assert way.credential == made.site.authority.server("e2", way.server_key)
    made.hear(Redirect(*way.address, way.server_key, way.credential))
    made.site.run(1.0)
    assert made.car.session.drops["untrusted_server"] == 0
    node = made.site.servers["e2"].node
    assert node is not None
    assert node.counts["sessions_opened"] == 1

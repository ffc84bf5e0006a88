"""Links of servers whose credentials end while no new orders come."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from nearcast.links.memory_mesh import MemoryHub, MemoryMesh
from nearcast.links.mesh import PeerAddress
from nearcast.runtime.peer_trust import PeerTrust
from nearcast.runtime.trust_files import StartingTrust
from nearcast.server.site_orders import ServerOrder
from nearcast.testing.authority import SmallAuthority
from nearcast.trust.credentials import ServerCredential, Validity

DAY_S = 86_400
AUTHORITY = SmallAuthority()
MANAGER = PeerAddress("manager", "10.0.0.9", 7100, b"m" * 32)


class Links(MemoryMesh):
    """Remembers who the others are."""

    def __init__(self) -> None:
        super().__init__(MemoryHub(), "e1")
        self.known: list[str] = []

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Take the others."""
        self.known = [one.server for one in peers]


def _order(server: str, days: int) -> ServerOrder:
    key = server.encode() * 16
    document = AUTHORITY.server(server, key, Validity(0, days * DAY_S))
    return ServerOrder(server, "10.0.0.1", 7000, key, "10.0.0.1", 7100, document)


def _credential(server: str, days: int) -> ServerCredential:
    role = "manager" if server == "manager" else "edge"
    return ServerCredential(server, role, b"k" * 32, 1, Validity(0, days * DAY_S))  # type: ignore[arg-type]


def test_a_link_ends_with_its_servers_credential_and_is_back_when_the_clock_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, links = [0.0], Links()
    starting = StartingTrust(
        AUTHORITY.trust(), _credential("e1", 100), MANAGER, _credential("manager", 90)
    )
    trust = PeerTrust(starting, "e1", links, lambda: now[0])
    trust.learn([_order("e1", 100), _order("e2", 50), _order("e3", 80)])
    assert links.known == ["manager", "e2", "e3"]
    now[0] = 50.0 * DAY_S
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += 61.0
            trust.on_timer()
    assert links.known == ["manager", "e3"]
    assert (trust.not_trusted, round(trust.days_left)) == (1, 50)
    assert [one.message for one in caplog.records] == ["server_not_trusted"]
    now[0] = 95.0 * DAY_S
    with caplog.at_level(logging.WARNING):
        trust.on_timer()
    assert links.known == []
    assert [one.message for one in caplog.records][1:] == [
        "server_not_trusted",
        "server_not_trusted",
        "credential_ends_soon",
    ]
    now[0] = 10.0 * DAY_S  # it was the clock here that was wrong
    trust.learn([_order("e2", 50)])
    assert links.known == ["manager", "e2"]

"""Guests go home while the manager is away: their home is found through the overlay."""

from __future__ import annotations

from typing import cast

import pytest

from nearcast.routing.index_mapping import hashed_index
from nearcast.server.directory import Directory
from nearcast.server.mesh_messages import MeshMessage, decode_mesh, encode_mesh
from nearcast.server.ring_messages import DirectoryClaim, DirectoryClaims, DirectoryWanted
from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite

EDGES = [f"e{number}" for number in range(6)]


def _site(homes: dict[str, str], seed: int = 1) -> SimulatedSite:
    """Return a site of one ring without a manager, where each server knows its own clients."""
    site = SimulatedSite(seed, Network(delay_s=lambda _a, _b: 0.005))
    for name in EDGES:
        site.add_server(name)
    site.add_server("cloud", is_edge=False)
    _obey(site, homes, 1)
    site.run(40.0)
    return site


def _obey(site: SimulatedSite, homes: dict[str, str], revision: int, but: str = "") -> None:
    for name, server in site.servers.items():
        here = tuple(ClientOrder(one, home) for one, home in homes.items() if home == name)
        if name != but:
            server.obey(Orders(revision, 1, "cloud", site.server_orders(), (), here))


def _server(site: SimulatedSite, name: str) -> Server:
    node = site.servers[name].node
    assert node is not None
    return node


def _sessions(site: SimulatedSite, client: str) -> list[str]:
    """Return the servers where a client has a session."""
    found = []
    for name in EDGES:
        node = site.servers[name].node
        if node is not None and node.sessions is not None and client in node.sessions:
            found.append(name)
    return found


def _visit(site: SimulatedSite, client: str, at: str, seconds: float = 20.0) -> list[str]:
    site.connect([site.add_client(client, at)])
    site.run(seconds)
    return _sessions(site, client)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_guest_is_sent_to_its_home_though_the_manager_is_away(seed: int) -> None:
    homes = {f"car-{number}": EDGES[number % 3] for number in range(12)}
    site = _site(homes, seed)
    for client in ("car-0", "car-1", "car-2"):
        assert _visit(site, client, "e5") == [homes[client]]
    assert _visit(site, "nobody's", "e5") == ["e5"]


def test_a_home_is_found_when_a_server_that_kept_the_claim_has_died() -> None:
    homes = {f"car-{number}": "e0" for number in range(20)}
    site = _site(homes)
    keepers = {
        name: len(_server(site, name).ring.directory)
        for name in site.servers
        if name not in ("e0", "e5")
    }
    assert sum(keepers.values()) > 0
    site.servers[max(keepers, key=lambda one: keepers[one])].kill()
    found = 0
    for client in homes:
        site.connect([site.add_client(client, "e5")])
    site.run(60.0)
    for client in homes:
        sessions = _server(site, "e0").sessions
        assert sessions is not None
        found += client in sessions
    assert found == len(homes)


def test_clients_that_move_are_found_at_their_new_home() -> None:
    homes = {"car": "e0", "bus": "e1"}
    site = _site(homes)
    _obey(site, {"car": "e2", "bus": "e1"}, 2)
    site.run(10.0)
    assert _visit(site, "car", "e5") == ["e2"]


def _dispatch(site: SimulatedSite, to: str, sender: str, message: MeshMessage) -> None:
    node = _server(site, to)
    node._peers.dispatch(sender, [encode_mesh(message)], site.servers[to].clock.read())


def test_a_liar_gets_no_guests_neither_by_a_claim_nor_by_old_orders() -> None:
    site = _site({"car": "e0", "old": "e4"})
    # e4 was the home of "old" and has not heard the new orders: what it shows is out of date
    _obey(site, {"car": "e0", "old": "e1"}, 2, but="e4")
    site.servers["e1"].kill()
    site.run(5.0)
    for name in site.servers:
        if name not in ("e1", "e4"):
            _dispatch(site, name, "e4", DirectoryClaim(("car", "old", "nobody")))
    assert _visit(site, "car", "e5") == ["e0"]
    assert _visit(site, "old", "e5") == ["e5"]
    assert _visit(site, "nobody", "e5") == ["e5"]
    _dispatch(site, "e5", "e4", DirectoryClaims("never asked", ("e4",)))
    assert _server(site, "e5").counts["mesh_refused"] == 0


def test_what_a_server_claims_is_limited_and_ends_with_it() -> None:
    site = _site({})
    homes = _server(site, "e0").ring.directory
    for start in range(0, 21_000, 1_000):
        names = tuple(f"x{number}" for number in range(start, start + 1_000))
        _dispatch(site, "e0", "e1", DirectoryClaim(names))
    _dispatch(site, "e0", "e1", DirectoryClaim(("x1",)))
    assert len(homes) == 20_000
    assert homes.refused == 1_000
    assert _server(site, "e0").ring.losses()["claims_refused"] == 1_000
    servers = tuple(one for one in site.server_orders() if one.server != "e1")
    site.servers["e0"].obey(Orders(2, 1, "cloud", servers, (), ()))
    assert len(homes) == 0
    _dispatch(site, "e0", "e1", DirectoryClaim(("x1",)))
    assert _server(site, "e0").counts["mesh_refused"] == 1


def test_claims_are_renewed_and_outdated_ones_forgotten() -> None:
    site = _site({"car": "e0"})

    def kept() -> int:
        alive = [one.node for one in site.servers.values() if one.node is not None]
        return sum(len(node.ring.directory) for node in alive)

    assert kept() >= 2
    site.run(1_000.0)
    assert kept() == 2
    site.servers["e0"].kill()
    site.run(1_500.0)
    assert kept() == 0


def test_each_hash_has_its_place_also_before_the_first_server() -> None:
    site = _site({})
    places = sorted((hashed_index(name.encode()), name) for name in site.servers)
    found: list[tuple[str, ...]] = []
    homes: Directory = _server(site, "e0").ring.directory

    def located(servers: tuple[str, ...], high: int, _now: float) -> None:
        assert place < high
        found.append(servers)

    for place in (0, places[0][0], places[3][0] + 1, (1 << 62) - 1):
        homes._locate(place, located, site.servers["e0"].clock.read())
        site.servers["e0"].do(_server(site, "e0").on_timer(site.servers["e0"].clock.read()))
        site.run(3.0)
    names = [name for _, name in places]
    assert found == [
        (names[-1], names[-2]),
        (names[0], names[-1]),
        (names[3], names[2]),
        (names[-1], names[-2]),
    ]


def test_an_unknown_client_is_answered_with_nobody() -> None:
    answer = DirectoryClaims("x", ())
    assert decode_mesh(encode_mesh(answer)) == answer
    site = _site({})
    homes = _server(site, "e0").ring.directory
    assert homes._answer("x", 0.0) == answer
    assert cast("DirectoryWanted", decode_mesh(encode_mesh(DirectoryWanted("x")))).name == "x"

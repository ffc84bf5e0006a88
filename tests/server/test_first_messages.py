"""A stream is claimed when its publisher comes: its first message waits for nobody."""

from __future__ import annotations

import pytest
from msgspec import structs

from nearcast.server.mesh_messages import encode_mesh
from nearcast.server.publisher_messages import Expects
from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from server.site_making import NOTED

WAY_S = 0.4
"""Between servers; clients are next to theirs."""


def way_s(sender: str, receiver: str) -> float:
    return 0.001 if "c" in (sender, receiver) else WAY_S


def site_with(target: str) -> tuple[SimulatedSite, SimulatedClient]:
    """A publisher at e0; brokers of its topic are e0, e1 and the cloud server, far apart."""
    site = SimulatedSite(1, Network(delay_s=way_s))
    for name in ("e0", "e1"):
        site.add_server(name)
    site.add_server("cloud", is_edge=False)
    client = site.add_client("c", "e0", 0.5, 0.5)
    topic = TopicOrder("t", 100, ("cloud", "e0", "e1"), NOTED, version=1)
    known = ClientOrder("c", "e0", {"t": target})
    site.obey(Orders(1, 1, "cloud", site.server_orders(), (topic,), (known,)))
    site.run(10.0)
    return site, client


def node(site: SimulatedSite, name: str) -> Server:
    found = site.servers[name].node
    assert found is not None
    return found


def processed(site: SimulatedSite) -> list[tuple[str, int]]:
    return [(server, number) for server, _, _, _, number in site.processed]


@pytest.mark.parametrize(("target", "ways"), [("e0", 0), ("cloud", 1)])
def test_the_first_message_is_processed_when_it_arrives(target: str, ways: int) -> None:
    site, client = site_with(target)
    site.connect([client])
    site.run(3 * WAY_S)
    client.publish("t", b"x")
    site.run(ways * WAY_S + 0.1)
    assert processed(site) == [(target, 1)]
    server = node(site, target)
    assert (server.counts["streams_claimed"], list(server._effects.pauses_s)) == (1, [])


def test_a_proof_of_where_a_publisher_is_delays_nothing() -> None:
    site, client = site_with("cloud")
    cloud, publishes = node(site, "cloud"), ClientOrder("c", "e0", {"t": "cloud"})
    assert cloud.orders is not None
    cloud.obey(structs.replace(cloud.orders, revision=2, clients=()), site.now)
    node(site, "e0").obey(structs.replace(cloud.orders, revision=2, clients=(publishes,)), site.now)
    site.connect([client])
    site.run(3 * WAY_S)
    for number, quiet_s in enumerate((0.0, 0.0, 600.0), 1):
        site.run(quiet_s)
        client.publish("t", b"x")
        site.run(WAY_S + 0.1)
        if number == 1:  # its stream is claimed from the other brokers first
            site.run(2 * WAY_S)
        assert processed(site)[-1] == ("cloud", number)
    assert cloud.counts["home_proofs_asked"] == 2
    assert cloud.counts["mesh_not_home"] == 0


def test_a_message_that_comes_while_its_stream_is_claimed_waits_for_the_rest() -> None:
    site, client = site_with("e0")
    site.connect([client])
    site.run(WAY_S)
    client.publish("t", b"x")
    site.run(0.1)
    assert processed(site) == []
    site.run(WAY_S)
    assert processed(site) == [("e0", 1)]
    pauses_s = node(site, "e0")._effects.pauses_s
    assert len(pauses_s) == 1
    assert 0 < pauses_s[0] < 1.1 * WAY_S


def test_a_stream_that_another_server_has_is_not_taken_for_a_publisher_that_may_send() -> None:
    site, client = site_with("e0")
    site.connect([client])
    client.publish("t", b"x")
    site.run(10.0)
    broker = node(site, "e1").broker
    broker.claims.expect("t", "c", site.now)
    assert not broker.topics["t"].claims.ownership.claims


def test_nobody_is_given_up_for_a_publisher_that_sends_nothing() -> None:
    site, client = site_with("e0")
    site.servers["e1"].kill()
    site.run(10.0)
    site.connect([client])
    site.run(20.0)
    server = node(site, "e0")
    assert server.counts["streams_taken_over"] == 0
    assert not server.broker.claims.are_open


def test_a_server_claims_only_what_its_own_orders_give_to_it() -> None:
    site, _ = site_with("cloud")
    server = node(site, "e1")
    server._peers.dispatch("e0", [encode_mesh(Expects("c", ("t",)))], site.now)
    assert not server.broker.topics["t"].claims.ownership.claims

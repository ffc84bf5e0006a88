"""A stream that begins is processed at once: nobody else can have taken anything of it."""

from __future__ import annotations

import pytest

from broker.making import broker_with, handle_copies, message
from nearcast.broker.actions import Ask
from nearcast.broker.topic_settings import TopicSettings
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from server.site_making import NOTED

WAY_S = 0.4
"""Between servers; clients are next to theirs."""


def way_s(sender: str, receiver: str) -> float:
    return 0.001 if "c" in (sender, receiver) else WAY_S


def orders_for(site: SimulatedSite, target: str, version: int) -> Orders:
    topic = TopicOrder("t", 100, ("cloud", "e0", "e1"), NOTED, version=version)
    known = ClientOrder("c", "e0", {"t": target})
    return Orders(version, version, "cloud", site.server_orders(), (topic,), (known,))


def site_with(target: str) -> tuple[SimulatedSite, SimulatedClient]:
    """A publisher at e0; brokers of its topic are e0, e1 and the cloud server, far apart."""
    site = SimulatedSite(1, Network(delay_s=way_s))
    for name in ("e0", "e1"):
        site.add_server(name)
    site.add_server("cloud", is_edge=False)
    client = site.add_client("c", "e0", 0.5, 0.5)
    site.obey(orders_for(site, target, 1))
    site.connect([client])
    site.run(10.0)
    return site, client


def processed(site: SimulatedSite) -> list[tuple[str, int]]:
    return [(server, number) for server, _, _, _, number in site.processed]


@pytest.mark.parametrize(("target", "ways"), [("e0", 0), ("cloud", 1)])
def test_the_first_message_is_processed_when_it_arrives(target: str, ways: int) -> None:
    site, client = site_with(target)
    client.publish("t", b"x")
    site.run(ways * WAY_S + 0.1)
    assert processed(site) == [(target, 1)]


def test_what_may_have_gone_elsewhere_waits_until_the_others_have_said_so() -> None:
    site, client = site_with("cloud")
    client.publish("t", b"x")
    site.run(0.1)  # it is on its way to the cloud server
    site.servers["e0"].obey(orders_for(site, "e0", 2))
    site.run(10.0)
    assert processed(site) == [("cloud", 1)]
    client.publish("t", b"y")
    site.run(10.0)
    assert processed(site) == [("cloud", 1), ("e0", 2)]


def test_a_broker_asks_before_it_goes_on_with_an_epoch_that_another_one_has_begun() -> None:
    broker = broker_with(TopicSettings("t", 10, other_brokers=("there",)))
    first = message("car", 1, epoch=1)
    first.begins = True
    broker.admit(first, None, 0.0)
    assert broker.run(0.0).claims == []
    assert broker.topics["t"].claims.owns("car")
    handle_copies(broker, [message("car", 1, epoch=2)], "there", 0.0)
    assert not broker.topics["t"].claims.owns("car")
    broker.admit(message("car", 2, epoch=2), None, 0.0)
    asked = [one for one in broker.run(0.0).claims if isinstance(one, Ask)]
    assert [(one.to_server, one.publishers) for one in asked] == [("there", ("car",))]

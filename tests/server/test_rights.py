"""Clients do what their rights say, and hear why when they may not."""

from __future__ import annotations

import pytest

from nearcast.server.allowance import Allowance
from nearcast.server.authorise import Authoriser
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.rights import NOTHING, Rights
from nearcast.wire.actions import Confirmed, PublicationRefused
from nearcast.wire.messages import RefuseReason
from nearcast.wire.settings import WireSettings

TRAFFIC = Rights(("traffic/#",), ("traffic/#",))


class OneEdge:
    """An edge, a cloud server, and clients with rights of their own."""

    def __init__(self, **rights: Rights) -> None:
        self.site = SimulatedSite(1)
        self.edge = self.site.add_server("e1")
        self.site.add_server("cloud", is_edge=False)
        self.people = {
            name: self.site.add_client(name, "e1", rights=one) for name, one in rights.items()
        }
        clients = tuple(ClientOrder(name, "e1") for name, one in self.people.items())
        topics = (TopicOrder("traffic/north", 10, ("e1",)),)
        self.site.obey(Orders(1, 1, "cloud", self.site.server_orders(), topics, clients))
        self.site.connect(self.people.values())
        self.site.run(2.0)

    def refusals(self, name: str) -> list[RefuseReason]:
        events = [event for _, event in self.people[name].events]
        return [one.reason for one in events if isinstance(one, PublicationRefused)]

    def confirmed(self, name: str) -> dict[str, bool]:
        events = [event for _, event in self.people[name].events]
        return {one.topic: one.accepted for one in events if isinstance(one, Confirmed)}


def _publish(site: SimulatedSite, client: SimulatedClient, *topics: str) -> None:
    for topic in topics:
        client.publish(topic, b"x")
    site.run(1.0)


def test_without_the_right_a_publication_has_no_effect_and_its_client_hears_why() -> None:
    made = OneEdge(car=TRAFFIC, sign=Rights((), ("#",)), thief=NOTHING)
    made.people["sign"].subscribe("parking")
    made.people["sign"].subscribe("traffic/north")
    made.site.run(1.0)
    for durable in (True, False):
        made.people["thief"].publish("traffic/north", b"x", durable=durable)
        made.people["car"].publish("parking", b"x", durable=durable)
    _publish(made.site, made.people["car"], "traffic/north")
    assert made.refusals("thief") == [RefuseReason.NOT_ALLOWED] * 2
    assert made.refusals("car") == [RefuseReason.NOT_ALLOWED] * 2
    assert [one.publisher for one in made.people["sign"].notified] == ["car"]
    node = made.edge.node
    assert node is not None
    assert node.refused_publications == {"not_allowed": 4}
    assert list(node.broker.topics) == ["traffic/north"]  # "parking" did not come into being
    assert {row[0] for row in made.edge.publications if row[6] == "publish"} == {"traffic/north"}
    assert all(one.session.unacknowledged == 0 for one in made.people.values())


def test_without_the_right_a_subscription_is_refused_with_a_reason() -> None:
    made = OneEdge(car=TRAFFIC, thief=NOTHING)
    for topic in ("traffic/north", "parking", "traffic/+", "#"):
        made.people["car"].subscribe(topic)
    made.people["thief"].subscribe("traffic/north")
    made.site.run(1.0)
    allowed = {"traffic/north": True, "parking": False, "traffic/+": True, "#": False}
    assert made.confirmed("car") == allowed
    assert made.confirmed("thief") == {"traffic/north": False}
    _publish(made.site, made.people["car"], "traffic/north")
    assert made.people["thief"].notified == []
    node = made.edge.node
    assert node is not None
    assert node.counts["subscriptions_refused"] == 3


def test_a_subscription_that_is_asked_for_again_is_logged_once() -> None:
    made = OneEdge(car=TRAFFIC)
    car = made.people["car"]
    made.site.network.cuts.add(frozenset(("e1", "cloud")))  # the answer takes a while
    car.subscribe("traffic/north")
    made.site.run(3.0)
    node = made.edge.node
    assert node is not None
    assert [row[6] for row in made.edge.publications if row[0] == "traffic/north"] == ["subscribe"]
    assert made.confirmed("car") == {"traffic/north": True}


def test_a_publication_names_one_topic() -> None:
    authority = SmallAuthority()
    authoriser = Authoriser(authority.trust(), 10)
    authoriser.vouch(authority.client("car", bytes(32)), 0.0)
    assert authoriser.authorise("car", "publish", "traffic/north") is None
    for pattern in ("traffic/+", "#"):  # a client of our own would not send it
        assert authoriser.authorise("car", "publish", pattern) is not None
        assert authoriser.authorise("car", "subscribe", pattern) is None


def test_rights_limit_sizes_and_topics() -> None:
    made = OneEdge(car=Rights(("#",), payload_bytes=3, topics=2))
    car = made.people["car"]
    for payload in (b"123", b"1234"):
        car.publish("traffic/north", payload)
    made.site.run(1.0)
    assert made.refusals("car") == [RefuseReason.TOO_LARGE]
    _publish(made.site, car, "new/1", "new/2", "new/3", "new/1", "traffic/north")
    assert made.refusals("car")[1:] == [RefuseReason.TOO_MANY_TOPICS]
    node = made.edge.node
    assert node is not None
    assert sorted(node.broker.topics) == ["new/1", "new/2", "traffic/north"]
    made.site.restart_client(car)  # another session, the same limit
    made.site.connect([car])
    made.site.run(1.0)
    _publish(made.site, car, "new/4")
    assert made.refusals("car")[2:] == [RefuseReason.TOO_MANY_TOPICS]


def test_a_client_that_publishes_too_fast_waits_and_loses_nothing() -> None:
    made = OneEdge(car=Rights(("#",), messages_per_s=10))
    car = made.people["car"]
    for _ in range(40):
        car.publish("traffic/north", b"x")
    made.site.run(1.0)
    node = made.edge.node
    assert node is not None
    assert 5 < len(node.broker.topics["traffic/north"].spool.view()) <= 10
    assert node.counts["publications"] <= 31  # two bursts and a second
    assert node.counts["rate_limited"] > 0
    made.site.run(10.0)
    assert car.session.unacknowledged == 0


def test_refused_publications_and_subscriptions_count_for_the_rate_too() -> None:
    made = OneEdge(thief=Rights(messages_per_s=10))
    thief = made.people["thief"]
    for number in range(200):
        thief.publish(f"traffic/{number}", b"x", durable=False)
        thief.subscribe(f"traffic/{number}")
    made.site.run(1.0)
    node = made.edge.node
    assert node is not None
    done = node.refused_publications["not_allowed"] + node.counts["subscriptions_refused"]
    assert 0 < done <= 31
    assert node.counts["rate_limited"] >= 150


def test_subscriptions_are_limited() -> None:
    made = OneEdge(car=TRAFFIC)
    for number in range(WireSettings().subscription_limit + 2):
        made.people["car"].subscribe(f"traffic/{number}")
    made.site.run(20.0)
    confirmed = made.confirmed("car")
    assert sum(confirmed.values()) == WireSettings().subscription_limit
    assert list(confirmed.values()).count(False) == 2


@pytest.mark.parametrize("rate_hz", [0.5, 10, 1_000])
def test_an_allowance_grants_its_rate_and_one_second_of_burst(rate_hz: float) -> None:
    one = Allowance(Rights(messages_per_s=rate_hz), WireSettings(), 0.0)
    granted = 0
    for step in range(20_000):
        one.credit -= 1.0
        granted += one.credit >= 0.0 or one.refill(step / 1_000)
    assert granted == pytest.approx(20 * rate_hz + max(1.0, rate_hz), rel=0.05, abs=1.1)
    assert one.wait_s(20.0, 0.2) == max(0.2, 1 / rate_hz)
    assert one.wait_s(20.1, 0.2) is None

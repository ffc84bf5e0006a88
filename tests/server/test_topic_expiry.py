"""Topics that nobody uses are given up, everywhere."""

from __future__ import annotations

from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.rights import Rights
from nearcast.wire.actions import Missed, PublicationRefused

IDLE_S = 60.0


class TwoEdges:
    def __init__(self) -> None:
        self.site = SimulatedSite(5)
        self.site.limits = {"topic_idle_s": IDLE_S}
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.car = self.site.add_client("car", "e1", rights=Rights(("#",), ("#",), topics=3))
        self.sign = self.site.add_client("sign", "e2")
        clients = (
            ClientOrder("car", "e1"),
            ClientOrder("sign", "e2"),
        )
        topics = (TopicOrder("planned", 10, ("e1",)),)
        self.site.obey(Orders(1, 1, "", self.site.server_orders(), topics, clients))
        self.site.connect([self.car, self.sign])
        self.site.run(2.0)

    def node(self, name: str) -> Server:
        node = self.site.servers[name].node
        assert node is not None
        return node

    def publish(self, *topics: str) -> None:
        for topic in topics:
            self.car.publish(topic, b"x")
        self.site.run(1.0)


def test_a_topic_that_nobody_uses_is_given_up_in_memory_on_disk_and_at_others() -> None:
    made = TwoEdges()
    made.sign.subscribe("wanted")
    made.publish("planned", "wanted", "used", "idle")
    assert made.node("e2").topics.brokers_of("idle") == ["e1"]
    for _ in range(8):
        made.site.run(IDLE_S / 4)
        made.publish("used")
    assert sorted(made.node("e1").broker.topics) == ["planned", "used", "wanted"]
    assert sorted(made.site.servers["e1"].stored.topics) == ["planned", "used", "wanted"]
    assert made.node("e2").topics.brokers_of("idle") == []
    assert made.node("e1").counts["topics_expired"] == 1
    assert made.site.servers["e1"].restart()
    made.site.run(2 * IDLE_S)
    assert "idle" not in made.node("e1").broker.topics


def test_a_subscriber_that_was_away_hears_that_something_is_missing() -> None:
    made = TwoEdges()
    made.sign.subscribe("a")
    made.site.run(1.0)
    made.publish(*["a"] * 5)
    made.site.run(15.0)  # the cursor is sure of these
    made.site.network.cuts |= {frozenset(("sign", name)) for name in ("e1", "e2")}
    made.site.run(40.0)
    made.publish(*["a"] * 3)
    made.site.run(2 * IDLE_S)
    assert "a" not in made.node("e1").broker.topics
    made.site.network.cuts.clear()
    made.site.run(20.0)
    missed = [event for _, event in made.sign.events if isinstance(event, Missed)]
    assert [(one.topic, one.count) for one in missed] == [("a", 3)]


def test_a_topic_that_comes_back_has_offsets_above_the_old_ones_and_counts_for_its_maker() -> None:
    made = TwoEdges()
    made.publish("a", "b", "c")
    before = made.node("e1").broker.topics["a"].end
    made.publish("d")
    refused = [event for _, event in made.car.events if isinstance(event, PublicationRefused)]
    assert [one.topic for one in refused] == ["d"]
    made.site.run(2 * IDLE_S)
    assert list(made.node("e1").broker.topics) == ["planned"]
    made.publish("a", "d")
    assert made.car.session.unacknowledged == 0
    assert made.node("e1").broker.topics["a"].end > before
    made.sign.subscribe("a")
    made.site.run(2.0)
    made.publish("a")
    assert [one.topic for one in made.sign.notified] == ["a"]

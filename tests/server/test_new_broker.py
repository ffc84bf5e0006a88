"""A server that orders add, which becomes a broker while a home cannot reach it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite


class NewBroker:
    """Subscriber s at e1; publisher p moves from e2 to e3, which is new and processes its topic."""

    def __init__(self, seed: int) -> None:
        self.site = SimulatedSite(seed)
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.listener: SimulatedClient = self.site.add_client("s", "e1")
        self.publisher: SimulatedClient = self.site.add_client("p", "e2")
        self.count = 0
        self.site.obey(self.orders(1, "e2"))
        self.site.connect([self.listener, self.publisher])
        self.site.run(2.0)

    def orders(self, revision: int, broker: str) -> Orders:
        past = () if broker == "e2" else ("e2",)
        topic = TopicOrder("t", 1_000, (broker,), version=revision, moved_from=past)
        clients = (ClientOrder("s", "e1"), ClientOrder("p", broker, {"t": broker}))
        return Orders(revision, revision, "", self.site.server_orders(), (topic,), clients)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            self.publisher.publish("t", b"%d" % self.count)
            self.site.run(0.2)

    def add_broker(self, *told: str) -> None:
        """Start e3 where e1 cannot reach it, and tell some servers the new orders."""
        self.site.add_server("e3")
        self.site.network.cuts.add(frozenset(("e1", "e3")))
        orders = self.orders(2, "e3")
        for name in told:
            self.site.servers[name].obey(orders)

    def heal(self) -> None:
        self.site.network.heal()
        for server in self.site.servers.values():
            if server.node is None:
                server.restart()
        self.site.obey(self.orders(2, "e3"))

    @property
    def heard(self) -> list[int]:
        return [int(one.payload) for one in self.listener.notified]


@pytest.mark.parametrize("pattern", ["t", "#"])
@pytest.mark.parametrize(
    ("seconds", "told", "fault"),
    [
        (2.0, "all", ""),
        (60.0, "home later", ""),
        (30.0, "home later", "home"),
        (8.0, "all", "broker"),  # it waits for e1, which may have stood in for it
        (30.0, "home later", "broker"),
        (2.0, "home later", "subscribes meanwhile"),
    ],
)
def test_what_was_published_there_meanwhile_is_heard_once_it_is_reached(
    pattern: str, seconds: float, told: str, fault: str
) -> None:
    made = NewBroker(len(pattern) + int(seconds))
    if fault != "subscribes meanwhile":
        made.listener.subscribe(pattern)
    made.site.run(3.0)
    made.publish(3)
    before = 0 if fault != "subscribes meanwhile" else 3
    made.add_broker(*("e1", "e2", "e3") if told == "all" else ("e2", "e3"))
    made.site.run(4.0)
    if fault == "subscribes meanwhile":
        made.listener.subscribe(pattern)
        made.site.run(8.0)
    made.publish(5)
    if fault == "home":
        made.site.servers["e1"].kill()
        made.site.run(1.0)
        made.site.servers["e1"].restart()
    if fault == "broker":
        made.site.servers["e3"].cut_power()
        made.site.run(1.0)
        made.site.servers["e3"].restart()
    made.publish(5)
    made.site.run(seconds)
    assert made.publisher.session.home.address[0] == "e3"
    assert made.publisher.session.unacknowledged == 0
    made.heal()
    made.publish(2)
    made.site.run(20.0)
    made.publish(2)
    made.site.run(20.0)
    assert sorted(made.heard) == list(range(before + 1, made.count + 1))


def test_a_server_that_orders_name_again_is_asked_from_where_it_was_heard() -> None:
    made = NewBroker(5)
    made.listener.subscribe("t")
    made.site.run(3.0)
    made.publish(3)
    made.add_broker("e2", "e3")
    made.heal()
    made.publish(4)
    made.site.run(5.0)
    assert sorted(made.heard) == list(range(1, 8))
    home, known = made.site.servers["e1"], made.orders(3, "e3")
    home.obey(replace(known, servers=tuple(one for one in known.servers if one.server != "e3")))
    made.publish(4)
    made.site.run(5.0)
    home.obey(replace(known, revision=4))
    made.site.run(10.0)
    made.publish(2)
    made.site.run(10.0)
    assert sorted(made.heard) == list(range(1, made.count + 1))

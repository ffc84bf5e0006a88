"""Brokers of topics are found on the ring while the manager is away."""

from __future__ import annotations

import pytest
from msgspec import structs

from nearcast.server.directory import topic_name
from nearcast.server.mesh_messages import MeshMessage, encode_mesh
from nearcast.server.ring_messages import DirectoryClaim
from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.stream_targets import Capacity
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite

EDGES = ("e0", "e1", "e2", "e3")
HOMES = {"car": "e0", "sign": "e3"}


class Small:
    """A site without a manager; e0 has no room, and only its brokers have orders for "road"."""

    def __init__(self, seed: int, brokers: tuple[str, ...] = ("e2",)) -> None:
        self.site = SimulatedSite(seed, Network(delay_s=lambda _a, _b: 0.005))
        for name in EDGES:
            capacity = Capacity(storage=0.0, compute=0.0) if name == "e0" else Capacity()
            self.site.add_server(name, capacity=capacity)
        self.site.add_server("cloud", is_edge=False)
        self.obey(1, brokers)
        self.car = self.site.add_client("car", "e0")
        self.sign = self.site.add_client("sign", "e3")
        self.site.connect([self.car, self.sign])
        self.site.run(40.0)
        self.sign.subscribe("road")
        self.site.run(3.0)

    def obey(self, revision: int, brokers: tuple[str, ...], but: tuple[str, ...] = ()) -> None:
        """Give orders as a manager does: each server hears of what concerns it."""
        order = TopicOrder("road", 50, brokers, version=revision)
        for name, server in self.site.servers.items():
            if name not in but:
                topics = (order,) if name in brokers else ()
                clients = tuple(ClientOrder(*one) for one in HOMES.items() if one[1] == name)
                orders = Orders(
                    revision, revision, "cloud", self.site.server_orders(), topics, clients
                )
                server.obey(orders)

    def node(self, server: str) -> Server:
        node = self.site.servers[server].node
        assert node is not None
        return node

    def dispatch(self, to: str, sender: str, message: MeshMessage) -> None:
        now = self.site.servers[to].clock.read()
        self.node(to)._peers.dispatch(sender, [encode_mesh(message)], now)

    def publish(self, count: int, seconds: float = 10.0) -> None:
        for number in range(count):
            self.car.publish("road", str(number).encode())
        self.site.run(seconds)

    def target(self) -> str:
        return self.node("e0").targets.target("road", "car")

    def heard(self) -> list[bytes]:
        return [one.payload for one in self.sign.notified]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stream_without_room_goes_to_a_broker_of_its_topic(seed: int) -> None:
    small = Small(seed)
    small.publish(5)
    assert small.target() == "e2"
    small.publish(5)
    assert sorted(small.heard()) == sorted(2 * [str(one).encode() for one in range(5)])
    assert small.car.session.unacknowledged == 0
    assert small.node("e2").counts["forwarded_in"] > 0
    assert small.node("e0").counts["visits_refused"] == 0


def test_it_is_found_while_the_cloud_server_is_away_too() -> None:
    small = Small(4)
    small.site.servers["cloud"].kill()
    small.publish(5, 30.0)
    assert small.target() == "e2"
    small.publish(5)
    assert sorted(small.heard()) == sorted(2 * [str(one).encode() for one in range(5)])


def test_when_the_broker_dies_another_one_goes_on_and_nothing_is_lost() -> None:
    small = Small(5, ("e1", "e2"))
    small.publish(5)
    first = small.target()
    assert first in ("e1", "e2")
    small.site.servers[first].kill()
    small.publish(5, 40.0)
    assert small.target() == ({"e1", "e2"} - {first}).pop()
    small.site.servers[first].restart()
    small.site.run(30.0)
    assert set(small.heard()) == {str(one).encode() for one in range(5)}
    assert len(small.heard()) == 10
    assert small.car.session.unacknowledged == 0


def test_without_the_directory_it_goes_to_the_cloud() -> None:
    """The same while the manager answers: its orders say that the cloud does the rest."""
    small = Small(6)
    peers = small.node("e0")._peers
    peers.is_away = lambda server, now, after_s: False  # type: ignore[method-assign]
    small.publish(5)
    assert small.target() == "cloud"
    assert len(small.heard()) == 5


def test_a_liar_gets_no_streams_neither_by_a_claim_nor_by_old_orders() -> None:
    small = Small(7, ("e1",))
    # e1 was the broker and has not heard the new orders: what it shows is out of date
    small.obey(2, (), but=("e1",))
    for name in ("e0", "e2", "e3", "cloud"):
        for liar in ("e1", "e2"):
            if liar != name:
                small.dispatch(name, liar, DirectoryClaim((topic_name("road"),)))
    small.publish(5)
    assert small.target() == "cloud"
    assert len(small.heard()) == 5


def test_new_orders_count_more_than_what_was_found() -> None:
    small = Small(8)
    small.publish(5)
    assert small.target() == "e2"
    small.obey(2, ("e1",))
    small.publish(5, 20.0)
    assert small.target() == "e1"
    order = TopicOrder("road", 50, ("e1",), version=3)
    known = small.node("e0").orders
    assert known is not None
    ordered = structs.replace(
        known, revision=3, topics=(order,), clients=(ClientOrder("car", "e0", {"road": "e0"}),)
    )
    small.site.servers["e0"].obey(ordered)
    assert small.target() == "cloud"  # by the orders e0 is no broker of it
    small.publish(5)
    assert len(small.heard()) == 15

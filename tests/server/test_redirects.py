"""A site that changes while it works: new orders, moving clients, what no plan knew."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from nearcast.broker.requests import Failure, ProcessRequest, ProcessResult
from nearcast.server.mesh_messages import LoadReport, decode_mesh
from nearcast.server.peer_channel import decode_frame
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.stream_targets import Capacity
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Confirmed, Disconnected
from server.site_making import NOTED, RandomSite


class SmallSite:
    """Two edge servers and the cloud server; clients a and b at e1, c and d at e2."""

    def __init__(self, capacity: Capacity | None = None, network: Network | None = None) -> None:
        self.site = SimulatedSite(1, network)
        for name in ("e1", "e2"):
            self.site.add_server(name, capacity)
        self.site.add_server("cloud", is_edge=False)
        self.homes = {"a": "e1", "b": "e1", "c": "e2", "d": "e2"}
        self.people: dict[str, SimulatedClient] = {
            name: self.site.add_client(name, home) for name, home in self.homes.items()
        }
        self.publish: dict[str, dict[str, str]] = {}
        self.revision = 0

    def obey(self, *topics: TopicOrder) -> None:
        self.revision += 1
        clients = tuple(
            ClientOrder(name, home, self.publish.get(name, {})) for name, home in self.homes.items()
        )
        servers = self.site.server_orders()
        self.site.obey(Orders(self.revision, self.revision, "cloud", servers, topics, clients))

    def start(self, *topics: TopicOrder, subscribe: str = "t") -> None:
        self.obey(*topics)
        self.site.connect(self.people.values())
        self.site.run(1.0)
        for one in self.people.values():
            one.subscribe(subscribe)
        self.site.run(1.0)

    def heard(self) -> dict[str, list[str]]:
        return {
            name: [one.payload.decode() for one in client.notified]
            for name, client in self.people.items()
        }

    def node(self, server: str) -> Any:
        return self.site.servers[server].node

    def spool(self, server: str, topic: str = "t") -> list[str]:
        return [one.payload.decode() for one in self.node(server).broker.topics[topic].spool.view()]

    def events(self, server: str) -> Counter[str]:
        return Counter(one.event for one in self.site.servers[server].incidents)


def test_a_topic_that_no_orders_name_is_heard_everywhere_from_its_first_message_on() -> None:
    made = SmallSite()
    made.start()
    for number in range(3):
        made.people["a"].publish("t", b"a%d" % number)
        made.people["c"].publish("t", b"c%d" % number)
        made.site.run(0.5)
    of_a, of_c = ["a0", "a1", "a2"], ["c0", "c1", "c2"]
    heard = made.heard()
    assert (heard["a"], heard["c"]) == (of_c, of_a)
    assert sorted(heard["b"]) == sorted(heard["d"]) == of_a + of_c
    # both homes manage it now, and copy to each other
    assert sorted(made.spool("e1")) == sorted(made.spool("e2")) == of_a + of_c
    assert "t" not in made.node("cloud").broker.topics


def test_a_topic_without_orders_outlives_its_server() -> None:
    made = SmallSite()
    made.start()
    made.people["a"].publish("t", b"before")
    made.site.run(1.0)
    made.site.servers["e1"].kill()
    made.site.servers["e1"].restart()
    made.site.run(1.0)
    assert made.spool("e1") == ["before"]
    assert made.node("e2").topics.brokers_of("t") == ["e1"]


def test_publishers_beyond_the_room_of_their_home_go_to_the_cloud() -> None:
    made = SmallSite(Capacity(storage=100.0, compute=100.0))  # one default spool, one publisher
    made.start()
    for name in ("a", "b"):
        made.people[name].publish("t", name.encode())
        made.site.run(1.0)
    assert made.node("e1").targets.target("t", "a") == "e1"
    assert made.node("e1").targets.target("t", "b") == "cloud"
    assert made.heard() == {"a": ["b"], "b": ["a"], "c": ["a", "b"], "d": ["a", "b"]}
    assert sorted(made.spool("e1")) == sorted(made.spool("cloud")) == ["a", "b"]
    assert all(one.session.unacknowledged == 0 for one in made.people.values())


def test_a_publisher_that_no_plan_knew_is_heard_by_all_from_its_first_message_on() -> None:
    made = SmallSite()
    made.start(TopicOrder("t", 5, ("e2",)))
    made.people["a"].publish("t", b"first")
    made.site.run(1.0)
    assert made.heard() == {"a": [], "b": ["first"], "c": ["first"], "d": ["first"]}
    assert made.spool("e1") == made.spool("e2") == ["first"]


def test_after_the_end_of_a_subscription_nothing_comes() -> None:
    made = SmallSite()
    made.start(TopicOrder("t", 5, ("e1",)))
    made.people["d"].unsubscribe("t")
    made.site.run(1.0)
    made.people["a"].publish("t", b"x")
    made.site.run(1.0)
    assert made.heard() == {"a": [], "b": ["x"], "c": ["x"], "d": []}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("target", ["e1", "cloud", "e2"])
def test_messages_without_acknowledgement_take_the_same_ways(durable: bool, target: str) -> None:
    made = SmallSite()
    made.publish = {"a": {"t": target}}
    made.start(TopicOrder("t", 5, (target,)))
    for number in range(3):
        made.people["a"].publish("t", b"%d" % number, durable=durable)
        made.site.run(0.1)
    wanted = ["0", "1", "2"]
    assert made.heard() == {"a": [], "b": wanted, "c": wanted, "d": wanted}
    assert made.spool(target) == wanted
    for one in made.people["c"].notified:
        assert one.durable == durable
    made.site.servers[target].kill()
    made.site.servers[target].restart()
    assert made.spool(target) == (wanted if durable else [])


@pytest.mark.parametrize("seed", [*range(20), 35, 43, 67, 89, 111])
def test_clients_that_move_home_miss_nothing_and_hear_nothing_twice(seed: int) -> None:
    network = Network(loss=0.1, duplication=0.05, jitter_s=0.01) if seed % 2 else Network()
    made = RandomSite(seed, spool=1_000, network=network)
    made.start()
    for revision in range(2, 6):
        made.publish_some(15, pause_s=0.01)
        for name in made.rng.sample(list(made.homes), 3):
            made.homes[name] = made.rng.choice(made.edge_names)
        made.site.obey(made.orders(revision))
    made.publish_some(15, pause_s=0.01)
    made.site.run(45.0)
    assert made.unacknowledged == 0
    assert made.heard() == made.expected()
    for name, client in made.people.items():
        assert client.session.home == made.site.servers[made.homes[name]].home


def test_orders_that_are_taken_back_take_their_redirections_back() -> None:
    """The client could not go yet; when it can, it is no longer sent away."""
    network = Network()
    made = SmallSite(network=network)
    topic = TopicOrder("t", 5, ("e1",))
    made.start(topic)
    network.cuts.add(frozenset(("a", "e2")))
    made.homes["a"] = "e2"
    made.obey(topic)
    made.site.run(3.0)
    assert made.node("e1").counts["redirects"] == 1
    assert "a" in made.node("e1").sessions.clients
    made.homes["a"] = "e1"
    made.obey(topic)
    made.site.run(30.0)  # the client's try to go has ended meanwhile
    network.cuts.clear()
    made.site.run(60.0)
    assert made.people["a"].session.home == made.site.servers["e1"].home
    assert made.node("e2").counts["redirects"] == 0
    assert "a" not in made.node("e2").sessions.clients


def test_a_notification_that_comes_long_after_its_client_moved_follows_it() -> None:
    network = Network()
    made = SmallSite(network=network)
    made.publish = {"a": {"t": "cloud"}}
    topic = TopicOrder("t", 5, ("cloud",))
    made.start(topic)
    network.cuts.add(frozenset(("cloud", "e2")))
    made.people["a"].publish("t", b"late")
    made.site.run(0.5)
    made.homes["c"] = "e1"
    made.obey(topic)
    made.site.run(20.0)
    assert made.people["c"].session.home == made.site.servers["e1"].home
    # its new home asks the broker for what it missed
    assert made.heard() == {"a": [], "b": ["late"], "c": ["late"], "d": []}
    network.cuts.clear()
    made.site.run(20.0)
    assert made.heard() == {"a": [], "b": ["late"], "c": ["late"], "d": ["late"]}


@pytest.mark.parametrize("seed", range(8))
def test_streams_that_new_orders_move_lose_nothing(seed: int) -> None:
    made = RandomSite(seed, spool=1_000)
    made.start()
    for revision in range(2, 6):
        made.publish_some(15, pause_s=0.01)
        for stream in made.targets:
            made.targets[stream] = made.rng.choice(["cloud", made.homes[stream[1]]])
        made.spool += 10
        made.processor = made.rng.choice(["forward", NOTED])
        for server in made.rng.sample(list(made.site.servers.values()), len(made.site.servers)):
            if server.node is not None:  # not all at once, and in any order
                server.do(server.node.obey(made.orders(revision), made.site.now))
            made.publish_some(1, pause_s=0.002)
    made.publish_some(15, pause_s=0.01)
    made.site.run(30.0)
    assert made.unacknowledged == 0
    assert made.heard() == made.expected()
    for order in made.orders().topics:
        published = {one for one in made.published if one[0] == order.topic}
        # what a broker had before the move stays there
        spools = [
            made.spool_of(name, order.topic)
            for name, server in made.site.servers.items()
            if server.node is not None and order.topic in server.node.broker.topics
        ]
        assert set().union(*spools) == published
        for spool in spools:
            assert len(spool) == len(set(spool))


def test_a_broker_that_is_new_to_a_topic_gets_what_the_others_have() -> None:
    made = SmallSite()
    made.publish = {"a": {"t": "e1"}}
    made.start(TopicOrder("t", 5, ("e1",)))
    for number in range(8):
        made.people["a"].publish("t", b"%d" % number)
        made.site.run(0.1)
    made.obey(TopicOrder("t", 5, ("e1", "cloud")))
    made.site.run(1.0)
    assert made.spool("e1") == made.spool("cloud") == ["3", "4", "5", "6", "7"]


@pytest.mark.parametrize("after_ms", [0.0, 1.0, 2.9, 3.1, 10.0])
def test_a_topic_that_changes_is_whole_on_the_disk_at_every_moment(after_ms: float) -> None:
    made = SmallSite()
    made.publish = {"a": {"t": "e1"}}
    made.start(TopicOrder("t", 5, ("e1",)))
    for number in range(4):
        made.people["a"].publish("t", b"%d" % number)
        made.site.run(0.1)
    made.obey(TopicOrder("t", 9, ("e1",)))
    made.site.run(after_ms / 1e3)
    made.site.servers["e1"].kill()
    made.site.servers["e1"].restart()
    assert made.spool("e1") == ["0", "1", "2", "3"]


def test_a_smaller_spool_keeps_the_newest_messages() -> None:
    made = SmallSite()
    made.publish = {"a": {"t": "e1"}}
    made.start(TopicOrder("t", 5, ("e1",)))
    for number in range(4):
        made.people["a"].publish("t", b"%d" % number)
        made.site.run(0.1)
    made.obey(TopicOrder("t", 2, ("e1",)))
    assert made.spool("e1") == ["2", "3"]


@pytest.mark.parametrize(
    "bad",
    [
        TopicOrder("t", 5, ("e1",), "threshold", {"no such option": 1}),
        TopicOrder("t", 0, ("e1",)),
    ],
)
def test_a_topic_that_cannot_be_managed_as_ordered_goes_on_as_it_was(bad: TopicOrder) -> None:
    made = SmallSite()
    made.publish = {"a": {"t": "e1"}}
    made.start(TopicOrder("t", 5, ("e1",)))
    made.people["a"].publish("t", b"0")
    made.site.run(1.0)
    for _ in range(3):
        made.obey(bad)
    complaints = made.events("e1")["topic_refused"]
    made.people["a"].publish("t", b"1")
    made.site.run(1.0)
    assert made.heard()["d"] == ["0", "1"]
    assert made.spool("e1") == ["0", "1"]
    assert 1 <= complaints <= 2  # not at each of the orders


def test_a_topic_whose_first_orders_are_bad_is_refused_and_the_server_lives() -> None:
    made = SmallSite()
    good = TopicOrder("t", 5, ("e1",))
    made.start(good, TopicOrder("bad", 0, ("e1",)), TopicOrder("x" * 2_000, 5, ("e1",)))
    assert made.events("e1")["topic_refused"] >= 2
    made.people["a"].publish("t", b"0")
    made.people["a"].publish("bad", b"0")
    made.site.run(1.0)
    assert made.heard()["d"] == ["0"]


def test_a_processor_that_cannot_be_loaded_costs_its_notifications_only() -> None:
    made = SmallSite()

    def fail(_server: str, request: ProcessRequest) -> ProcessResult:
        failures = [Failure("there is no processor", one) for one in request.batch]
        return ProcessResult(request.topic, request.request, failures=failures)

    made.site.process = fail
    made.publish = {"a": {"t": "e1", "u": "e1"}}
    made.start(TopicOrder("t", 5, ("e1",), NOTED), TopicOrder("u", 5, ("e1",)))
    made.people["d"].subscribe("u")
    made.site.run(1.0)
    for topic in ("t", "u"):
        made.people["a"].publish(topic, topic.encode())
    made.site.run(1.0)
    assert made.heard()["d"] == ["u"]
    assert made.spool("e1") == ["t"]
    assert made.people["a"].session.unacknowledged == 0
    assert made.node("e1").counts["processor_failed"] == 1


def test_without_the_manager_servers_go_on_and_reports_do_not_pile_up() -> None:
    made = SmallSite()
    made.start(TopicOrder("t", 5, ("e1",)))
    made.site.run(300.0)
    made.people["a"].publish("t", b"x")
    made.site.run(1.0)
    assert made.heard()["d"] == ["x"]
    sent: list[bytes] = []
    server = made.site.servers["e1"]
    assert server.node is not None
    for _ in range(20):
        made.site.now += 10.0
        out = server.node.on_timer(made.site.now)
        sent += [frame for name, frame in out.mesh if name == "manager"]
    frames = [decode_frame(one) for one in sent]
    assert frames
    for frame in frames:
        assert frame is not None
        assert len(frame.messages) <= 4
        reports = [one for one in map(decode_mesh, frame.messages) if isinstance(one, LoadReport)]
        assert len(reports) >= 2


def test_orders_survive_a_restart_without_the_manager() -> None:
    made = SmallSite()
    made.start(TopicOrder("t", 5, ("e1",)))
    saved = made.site.servers["e1"].saved_orders
    assert saved is not None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(saved), type=Orders) == saved
    made.site.servers["e1"].kill()
    made.site.servers["e1"].restart()
    assert made.node("e1").orders == saved
    older = msgspec.structs.replace(saved, revision=0, topics=())
    made.node("e1").obey(older, made.site.now)
    assert made.node("e1").orders == saved


@pytest.mark.parametrize("target", ["e1", "cloud"])
def test_a_message_published_as_soon_as_a_subscription_is_confirmed_is_heard(target: str) -> None:
    network = Network(delay_s=lambda sender, receiver: 0.05 if len(sender) > 1 else 0.001)
    made = SmallSite(network=network)
    made.publish = {"a": {"t": target}}
    made.obey(TopicOrder("t", 5, (target,)))
    made.site.connect(made.people.values())
    made.site.run(1.0)
    made.people["c"].subscribe("t")
    while not any(isinstance(event, Confirmed) for _, event in made.people["c"].events):
        made.site.run(0.001)
    made.people["a"].publish("t", b"at once")
    made.site.run(1.0)
    assert made.heard()["c"] == ["at once"]


def test_a_subscription_is_confirmed_though_a_server_is_away() -> None:
    made = SmallSite()
    made.obey(TopicOrder("t", 5, ("e1", "cloud")))
    made.site.connect(made.people.values())
    made.site.run(1.0)
    made.site.servers["cloud"].kill()
    made.people["c"].subscribe("t")
    made.site.run(1.4)
    assert not [one for _, one in made.people["c"].events if isinstance(one, Confirmed)]
    made.site.run(2.0)
    assert [one.accepted for _, one in made.people["c"].events if isinstance(one, Confirmed)]


def test_who_is_not_in_the_orders_is_a_guest_and_served() -> None:
    made = SmallSite()
    made.start(TopicOrder("t", 5, ("e1",)))
    del made.homes["d"]
    made.obey(TopicOrder("t", 5, ("e1",)))
    made.site.run(5.0)
    made.people["d"].publish("t", b"from d")
    made.people["a"].publish("t", b"x")
    made.site.run(5.0)
    assert made.heard()["a"] == ["from d"]
    assert made.heard()["d"] == ["x"]
    events = [event for _, event in made.people["d"].events]
    assert not any(isinstance(event, Disconnected) for event in events)
    made.homes["d"] = "e1"  # the next orders say where it belongs
    made.obey(TopicOrder("t", 5, ("e1",)))
    made.site.run(5.0)
    assert made.people["d"].session.home == made.site.servers["e1"].home

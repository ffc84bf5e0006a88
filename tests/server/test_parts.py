"""Parts of a server alone: each with fakes for what is around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from nearcast.broker.actions import Ack, Nack
from nearcast.broker.audiences import OutgoingNotification, Recipients
from nearcast.broker.broker import Broker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.server.authorise import Authoriser
from nearcast.server.class_gate import ClassGate
from nearcast.server.delivery import Delivery
from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.home_witness import HomeWitness
from nearcast.server.log_rows import NotificationRow
from nearcast.server.mesh_messages import (
    MeshMessage,
    Notices,
    encode_mesh,
)
from nearcast.server.peer_channel import PeerFrame, decode_frame, encode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.peers import Peers
from nearcast.server.publisher_messages import (
    Forward,
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    ForwardRefuse,
)
from nearcast.server.router import Router
from nearcast.server.server_settings import EdgeSettings
from nearcast.server.stream_targets import Capacity, StreamTargets
from nearcast.server.subscriber_messages import (
    Subscribers,
    SubscribersKnown,
    SubscribersWanted,
    Unsubscribed,
)
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscriptions import Subscriptions
from nearcast.server.vouching import Vouching
from nearcast.testing.authority import SmallAuthority
from nearcast.wire.group_sender import GroupSender
from nearcast.wire.hot_frames import decode_notify
from nearcast.wire.message_class import MESSAGE_CLASSES
from nearcast.wire.messages import Notify, Refuse, Route, Subscribe
from nearcast.wire.publication import Origin, Publication

NOW = 1_700_000_000.0


class Surroundings:
    """Peers that note what is said to them."""

    def __init__(self, *others: str) -> None:
        self.effects = Effects()
        self.peers = Peers("e1", "manager", PeerChannels(1), self.effects)
        self.peers.learn(("e1", *others))

    def said(self) -> list[tuple[str, MeshMessage]]:
        from nearcast.server.mesh_messages import decode_mesh

        found = []
        for server, data in self.peers.poll(NOW):
            frame = decode_frame(data)
            assert frame is not None
            found += [(server, decode_mesh(one)) for one in frame.messages]
        return found

    def hear(self, server: str, message: MeshMessage) -> None:
        self.peers.dispatch(server, [encode_mesh(message)], NOW)


class Publishers:
    """Notes what publishers are told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def acknowledge(self, client: str, topic: str, epoch: int, up_to: int, level: int = 1) -> None:
        self.told.append(("ack", client, topic, epoch, up_to))

    def nack(self, client: str, topic: str, epoch: int, expected: int, missing: int = 1) -> None:
        self.told.append(("nack", client, topic, epoch, expected, missing))

    def busy(self, client: str, retry_after_s: float, topic: str = "") -> None:
        self.told.append(("busy", client, topic))

    def tell(self, client: str, message: Refuse | Route) -> None:
        self.told.append(("tell", client, message))


class Clients:
    """Notes notifications; only some clients have a session."""

    group: GroupSender | None = None

    def __init__(self, *present: str) -> None:
        self.present = present
        self.told: list[tuple[str, bytes]] = []

    def check_notification(self, frame: bytes) -> None:
        pass

    def notify_urgently(self, clients: Iterable[str], frame: bytes, left_out: str) -> list[str]:
        return self.notify_all(clients, frame, left_out)

    def notify_all(self, clients: Iterable[str], frame: bytes, left_out: str) -> list[str]:
        wanted = [one for one in clients if one != left_out]
        self.told += [(one, frame) for one in wanted if one in self.present]
        return [one for one in wanted if one not in self.present]


def publication(publisher: str = "car", sequence: int = 1, topic: str = "t") -> Publication:
    return Publication(topic, publisher, 1, sequence, 1, 2, 0.0, 0.0, b"x", oldest=1)


def router(around: Surroundings, publishers: Publishers, cloud: str = "cloud") -> Router:
    broker = Broker(SubscriberDirectory().table, lambda: NOW)
    broker.add_topic(TopicSettings("t", 10))
    targets = StreamTargets("e1", Capacity(0.0, 0.0) if cloud else Capacity(), 10)
    targets._cloud = cloud
    return Router(
        around.peers,
        broker,
        targets,
        around.effects,
        publishers,
        lambda topic: None,
        lambda topic: None,
        lambda _: True,
        lambda topic: True,
        lambda topic: True,
        Vouching(
            around.peers,
            authoriser := Authoriser(SmallAuthority().trust(), 10),
            around.effects,
            lambda server, client: None,
            lambda client, now: None,
        ),
        HomeWitness(
            around.peers,
            bytes(32),
            authoriser,
            None,
            around.effects,
            lambda server, client, now: None,
        ),
        0.2,
        3.0,
        ClassGate(MESSAGE_CLASSES, authoriser, around.effects),
    )


def test_a_router_forwards_what_another_server_processes_in_one_message_per_topic() -> None:
    around, publishers = Surroundings("cloud", "e2"), Publishers()
    made = router(around, publishers)
    for sequence in (1, 2):
        made.route(publication(sequence=sequence), NOW)
    assert around.said() == []
    made.flush()
    ((server, message),) = around.said()
    assert server == "cloud"
    assert isinstance(message, Forward)
    assert (message.topic, len(message.records), message.oldest) == ("t", 2, (1, 1))
    around.hear("cloud", ForwardAck("t", "car", 1, 2))
    around.hear("cloud", ForwardNack("t", "car", 1, 3, 4))
    assert publishers.told == [("ack", "car", "t", 1, 2), ("nack", "car", "t", 1, 3, 4)]
    around.hear("cloud", ForwardAck("t", "nobody", 1, 2))
    for lie in (
        ForwardAck("t", "car", 1, 9),
        ForwardNack("t", "car", 1, 9, 1),
        ForwardBusy("t", "car", 9.0),
        ForwardRefuse("t", "car", 1, 9, True, 0),
    ):
        around.hear("e2", lie)  # it has nothing to do with this stream
    assert len(publishers.told) == 2
    assert around.effects.counts["mesh_refused"] == 5


def test_a_router_answers_where_a_publication_came_from() -> None:
    around, publishers = Surroundings("e2"), Publishers()
    made = router(around, publishers, cloud="")
    made.acknowledge(Ack("t", "car", 1, 5))
    made.ask_again(Nack("t", "car", 1, ((3, 4),)))
    made.refuse_for_now(publication(), None)
    once = publication()
    once.origin = Origin.ONCE
    made.refuse_for_now(once, None)  # its publisher would not repeat it
    assert publishers.told == [
        ("ack", "car", "t", 1, 5),
        ("nack", "car", "t", 1, 3, 2),
        ("busy", "car", "t"),
    ]
    made.acknowledge(Ack("t", "car", 1, 5, "e2"))
    assert around.said() == [("e2", ForwardAck("t", "car", 1, 5))]


def test_a_delivery_packs_notifications_per_home_and_passes_on_what_it_cannot_bring() -> None:
    around, clients = Surroundings("e2"), Clients("a", "b")
    directory = SubscriberDirectory()
    for home, names in (("e1", "ab"), ("e2", "cd"), ("e1", "x")):
        some = tuple((name, 0.0, 0.0) for name in names)
        directory.on_subscribers(home, Subscribers("t", some, complete=False))
    passed: list[str] = []
    made = Delivery(
        around.peers,
        directory,
        around.effects,
        lambda: NOW,
        clients,
        lambda client, frames, now: passed.append(client),
        lambda topic, clients, now: clients,
        lambda broker, reached: None,
        lambda envelope: 0,
    )
    notify = Notify("t", "b", 1, 7, True, 0, b"hello", 1, 2, 3)
    made.send([OutgoingNotification(notify, directory.table.everyone("t"), "b", False)] * 2)
    assert [client for client, _ in clients.told] == ["a", "a"]  # b caused it
    assert passed == ["x", "x"]
    made.flush()
    ((server, notices),) = around.said()
    assert server == "e2"
    assert isinstance(notices, Notices)
    assert [one.clients for one in notices.notices] == [("c", "d")] * 2
    assert decode_notify(notices.notices[0].body).payload == b"hello"
    rows = [NotificationRow(*row) for row in around.effects.out.notifications]  # type: ignore[arg-type]
    assert [row.clients for row in rows] == [("a",)] * 2


def test_without_clients_a_delivery_counts_what_comes_for_them() -> None:
    around = Surroundings()
    directory = SubscriberDirectory()
    made = Delivery(
        around.peers,
        directory,
        around.effects,
        lambda: NOW,
        None,
        lambda *_: None,
        lambda topic, clients, now: clients,
        lambda *_: None,
        lambda envelope: 0,
    )
    recipients = Recipients(("a",), {"e1": ("a",)})
    notify = Notify("t", "b", 1, 7, True, 0, b"hello")
    made.send([OutgoingNotification(notify, recipients, "", False)])
    assert around.effects.counts["notifications_undelivered"] == 1


class Granted:
    """Stands for what is heard of brokers, and notes which subscriptions were confirmed."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int, Starts]] = []
        self.heard: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note where a broker is."""
        self.heard += [(broker, topic) for topic in ends]

    def note_start(self, server: str, offset: int) -> None:
        """Note nothing."""

    def begin_anew(self, broker: str, topic: str, now: float, *, was_away: bool = False) -> None:
        """Note a broker that is heard from its beginning."""
        self.begun.append((broker, topic))

    def on_told(self, broker: str) -> None:
        """Ask nothing."""

    def brokers(self, wanted: str) -> list[tuple[str, str]]:
        """Return what was noted."""
        return [one for one in self.heard if one[1] == wanted]

    def grant(self, client: str, request: int, starts: Starts) -> None:
        """Note a confirmation."""
        self.requests.append((client, request, starts))

    def tell_starts(self, client: str, starts: Starts) -> int:
        """Note nothing."""
        return len(starts)

    def ask_later(self, broker: str, client: str, topic: str, *, resumes: bool) -> None:
        """Note nothing."""

    def ask_now(self, broker: str, topics: Iterable[str], now: float) -> None:
        """Note nothing."""


class Home:
    """Subscriptions at e1, with what is said to other servers."""

    def __init__(self, *others: str) -> None:
        self.around, self.granted, self.clients = Surroundings(*others), Granted(), HomeClients()
        self.made = Subscriptions(
            self.around.peers,
            self.clients,
            SubscriberDirectory(),
            lambda topic: ["e2"],
            lambda topic: {topic: 3},
            self.granted,
            self.granted,
            lambda *told: None,
            lambda server, clients: None,
            EdgeSettings(grace_s=3.0, broker_answers_s=5.0, server_answers_s=1.0),
        )

    def subscribe(self, client: str, topic: str, request: int = 1) -> None:
        self.made.subscribe(client, Subscribe(request, topic), NOW)

    def told(self) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """By server: the names of topics and the clients that it was told of, or asked for."""
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for server, message in self.around.said():
            assert isinstance(message, Subscribers | Unsubscribed)
            clients = tuple(one if isinstance(one, str) else one[0] for one in message.clients)
            found.setdefault(server, []).append((message.topic, clients))
        return found

    @property
    def confirmed(self) -> list[str]:
        return [client for client, _, _ in self.granted.requests]

    def wanted(self, server: str, *topics: str) -> None:
        self.made.on_wanted(server, SubscribersWanted(topics, 1, 0), NOW)


@pytest.mark.parametrize("order", [("e2", "e3"), ("e3", "e2")])
def test_a_subscription_is_confirmed_when_the_brokers_concerned_know_it(
    order: tuple[str, str],
) -> None:
    home, (broker, other) = Home("e2", "e3"), order
    home.subscribe("car", "t", 1)
    home.subscribe("car", "t", 2)  # repeated: one question to servers
    assert home.told() == {"e2": [("t", ())], "e3": [("t", ())]}
    home.around.hear(broker, SubscribersKnown(1, {"t": 6}))
    assert home.told() == {broker: [("t", ("car",))]}  # nobody else hears who subscribes
    home.around.hear(other, SubscribersKnown(1))
    assert not home.confirmed
    home.around.hear(broker, SubscribersKnown(2, {"t": 7}))
    starts = {("e1", "t"): 3, (broker, "t"): 7}
    assert home.granted.requests == [("car", 2, starts)]
    home.granted.heard.append(("e4", "t"))
    home.subscribe("car", "t", 3)  # known by now: no need to wait
    assert home.granted.requests[1:] == [("car", 3, starts | {("e4", "t"): 0})]


def test_all_servers_are_asked_once_for_a_topic_and_brokers_are_told_of_each_client() -> None:
    home = Home("e2", "e3")
    home.subscribe("car", "t")
    home.around.hear("e3", SubscribersKnown(1))
    home.around.hear("e2", SubscribersKnown(1, {"t": 7}))
    home.around.hear("e2", SubscribersKnown(2, {"t": 7}))
    home.told()
    home.subscribe("bus", "t")
    assert home.told() == {"e2": [("t", ("bus",))]}
    home.around.hear("e2", SubscribersKnown(3, {"t": 9}))
    assert home.confirmed == ["car", "bus"]
    home.made.unsubscribe("bus", 2, "t")
    assert home.told() == {"e2": [("t", ("bus",))]}


def test_a_server_that_comes_to_have_a_topic_is_told_and_heard_from_its_beginning() -> None:
    home = Home("e2", "e3")
    home.subscribe("car", "city/#")
    home.subscribe("bus", "city/a")
    for server in ("e2", "e3"):
        home.around.hear(server, SubscribersKnown(1))
        home.around.hear(server, SubscribersKnown(3))
    assert home.confirmed == ["car", "bus"]
    home.told()
    home.wanted("e3", "city/a", "village")
    assert home.told() == {"e3": [("city/a", ("bus",)), ("city/#", ("car",))]}
    home.wanted("e3", "city/b")  # it knows the subscribers of the pattern
    assert home.told() == {}
    assert home.granted.begun == [("e3", "city/a"), ("e3", "city/b")]
    home.subscribe("tram", "city/#")
    assert home.told() == {"e3": [("city/#", ("tram",))]}
    home.made.on_forgets("e3", "city/b")
    home.wanted("e3", "city/b")  # it may have forgotten them, and is told again
    assert home.told() == {"e3": [("city/#", ("car", "tram"))]}
    home.made.on_restarted("e3")
    home.wanted("e3", "city/a")
    assert home.told() == {"e3": [("city/a", ("bus",)), ("city/#", ("car", "tram"))]}


def test_a_server_that_answers_at_last_is_not_heard_from_its_beginning() -> None:
    home = Home("e2")
    home.subscribe("car", "t")
    home.wanted("e2", "t")  # it has restarted: its answer says where the subscription starts
    assert home.told() == {"e2": [("t", ()), ("t", ("car",))]}
    assert not home.granted.begun


def test_what_nobody_wants_any_more_is_forgotten_here_and_at_its_brokers() -> None:
    home = Home("e2", "e3")
    home.subscribe("car", "t")
    home.around.hear("e2", SubscribersKnown(1, {"t": 7}))
    home.around.hear("e3", SubscribersKnown(1))
    home.made.unsubscribe("car", 2, "t")
    home.told()
    home.made.expire(NOW)
    home.made.expire(NOW + 5.9)
    assert len(home.made.interests.all) == 1  # it may come back
    home.made.expire(NOW + 6.0)
    assert home.told() == {"e2": [("t", ())]}
    assert not home.made.interests.all


def test_a_subscription_waits_longer_for_a_broker_than_for_others() -> None:
    home = Home("e2", "e3")
    home.subscribe("car", "t")
    home.subscribe("bus", "u")
    home.around.hear("e2", SubscribersKnown(1))
    home.made.expire(NOW + 1.0)
    assert home.confirmed == ["car"]
    home.made.expire(NOW + 4.9)
    assert home.confirmed == ["car"]
    home.made.expire(NOW + 5.0)
    assert home.confirmed == ["car", "bus"]


def test_only_servers_that_the_orders_name_and_the_manager_are_heard() -> None:
    around = Surroundings("e2")
    frame = encode_frame(PeerFrame(1, False, 1, 1, [b"x"], 0, 0))
    assert around.peers.receive("nobody", frame, NOW) == ([], [])
    assert around.peers.receive("e2", frame, NOW) == (["e2"], [b"x"])
    assert around.peers.receive("manager", frame, NOW) == (["manager"], [b"x"])
    assert around.effects.counts["mesh_rejected_unknown_server"] == 1

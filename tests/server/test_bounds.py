"""Tables of a server: each has a limit, and who is refused hears why."""

from __future__ import annotations

from nearcast.broker.audiences import SubscriberTable
from nearcast.broker.broker import Broker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.server.effects import Effects
from nearcast.server.handover_buffer import HandoverBuffer
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.server.stream_targets import Capacity, StreamTargets
from nearcast.server.unproved_publications import UnprovedPublications
from nearcast.spool.changes import LiveState
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import PublicationRefused
from nearcast.wire.messages import RefuseReason
from nearcast.wire.publication import Origin, Publication


def publication(publisher: str, sequence: int = 1, origin: Origin = Origin.DIRECT) -> Publication:
    return Publication("t", publisher, 1, sequence, 1, 2, 0.0, 0.0, b"x", origin, oldest=1)


def crowded_broker(limit: int) -> Broker:
    broker = Broker(SubscriberTable(), lambda: 0.0)
    broker.add_topic(TopicSettings("t", 2, stream_limit=limit, stream_idle_s=100.0))
    return broker


def test_publishers_that_were_idle_for_long_are_forgotten_on_the_disk_too() -> None:
    broker, stored = crowded_broker(10), LiveState()

    def publish(publisher: str, sequence: int, now_s: float) -> int:
        one = publication(publisher, sequence)
        one.oldest = sequence  # what came before was acknowledged
        broker.admit(one, None, now_s)
        actions = broker.run(now_s)
        if actions.to_store is not None:
            for change in actions.to_store.changes:
                stored.apply(change)
            broker.on_committed([actions.to_store.ticket])
        return len(actions.refusals)

    for number in range(10):
        assert publish(f"p{number}", 1, 0.0) == 0
    assert publish("late", 1, 50.0) == 1
    assert publish("p0", 2, 60.0) == 0
    assert publish("late", 1, 120.0) == 0  # the five that were there at the first look, but p0
    topic = broker.topics["t"]
    assert set(topic._streams) == set(stored.topics["t"].positions)
    assert set(topic._streams) == {"p0", "p5", "p6", "p7", "p8", "p9", "late"}
    assert publish("p1", 2, 121.0) == 0  # it comes back
    assert stored.topics["t"].positions["p1"].sequence == 2
    assert publish("p0", 2, 122.0) == 0
    assert topic.streams == 8


def test_what_is_not_durable_is_not_forgotten() -> None:
    broker = crowded_broker(4)
    for number in range(4):
        broker.admit(publication(f"p{number}"), None, 0.0)
    broker.run(0.0)
    for now_s in (0.0, 200.0, 400.0):
        broker.admit(publication("late"), None, now_s)
        assert len(broker.run(now_s).refusals) == 1
    assert broker.topics["t"].streams == 4


def test_a_topic_remembers_so_many_publishers_and_forgets_none_of_them() -> None:
    broker = crowded_broker(3)
    for number in range(10):
        broker.admit(publication(f"p{number}"), None, 0.0)
        broker.admit_copy(publication(f"q{number}", origin=Origin.COPY), "e2")
        broker.advance("t", f"r{number}", 1, 5)
    actions = broker.run(0.0)
    assert broker.topics["t"].streams == 3
    assert len(actions.refusals) == 20 - 2
    broker.admit(publication("p0", 2), None, 0.0)  # it goes on
    broker.admit(publication("p0", 1), None, 0.0)  # and nothing of it is taken twice
    actions = broker.run(0.0)
    assert not actions.refusals
    assert actions.duplicates == 1


def test_of_publishers_without_acknowledgement_the_oldest_are_forgotten() -> None:
    broker = crowded_broker(3)
    for number in range(10):
        broker.admit_once(publication(f"p{number}", origin=Origin.ONCE), None)
    assert len(broker.topics["t"]._once) == 3
    assert broker.run(0.0).refusals == []


def test_who_is_refused_for_lack_of_room_hears_why() -> None:
    site = SimulatedSite(1)
    site.limits = {"topic_limit": 2, "stream_limit": 1}
    for name in ("e1", "e2"):
        site.add_server(name)
    site.add_server("cloud", is_edge=False)
    clients = [site.add_client(f"c{number}", "e1") for number in range(2)]
    site.obey(Orders(1, 1, "cloud", site.server_orders(), (), ()))
    site.connect(clients)
    site.run(2.0)
    for number in range(4):
        clients[0].publish(f"t{number}", b"x")
    site.run(2.0)
    clients[1].publish("t0", b"x")
    site.run(2.0)
    node = site.servers["e1"].node
    assert node is not None
    assert len(node.broker.topics) == 2

    def reasons(number: int) -> list[RefuseReason]:
        return [
            one.reason for _, one in clients[number].events if isinstance(one, PublicationRefused)
        ]

    assert reasons(0) == [RefuseReason.TOO_MANY_TOPICS] * 2
    assert reasons(1) == [RefuseReason.TOO_MANY_PUBLISHERS]


def test_the_targets_of_streams_are_bounded() -> None:
    targets = StreamTargets("e1", Capacity(streams=100), 10)
    servers = (ServerOrder("e1", "e1", 1, bytes(32)),)
    targets.obey(Orders(1, 1, "cloud", servers, (), ()))
    for number in range(1_000):
        assert targets.target("t", f"p{number}") == "e1"
        assert len(targets) <= 100
    assert targets.target("t", "p0") == "e1"
    assert len(targets._before) <= 100
    assert len(targets._rules) == len(targets)


def test_the_place_of_a_client_is_forgotten_with_its_last_subscription() -> None:
    table = SubscriberTable()
    for topic in ("t", "u"):
        table.subscribe(topic, "a")
        table.subscribe(topic, "a")
    table.move("a", 1.0, 2.0)
    assert table.subscriptions == 2
    table.unsubscribe("t", "a")
    assert table.nearest("u", 0.0, 0.0, 1) == ["a"]
    table.unsubscribe("u", "a")
    table.unsubscribe("u", "a")
    assert table.subscriptions == 0
    assert not table._places


def test_what_is_kept_for_clients_on_their_way_is_bounded() -> None:
    buffer = HandoverBuffer(grace_s=3.0, frame_limit=1_000)
    for number in range(3_000):
        buffer.keep(f"c{number % 500}", [b"x"], now=0.0, epoch=1)
    assert buffer.frames == 1_000
    buffer.take_kept("c1")
    assert buffer.frames == 998
    _, given_up = buffer.expire(10.0)
    assert given_up == 998
    assert buffer.frames == 0
    for number in range(3_000):  # of whom nothing is kept
        buffer.keep(f"c{number}", [], now=20.0, epoch=1)
    assert len(buffer._kept) == 1_000


def test_tables_that_others_can_fill_are_scaled_by_one_setting_and_shown() -> None:
    effects = Effects(table_factor=0.01)
    buffer = UnprovedPublications(effects)
    for number in range(100):
        one = Publication("t", f"p{number}", 1, 1, 1, 2, 0.0, 0.0, b"x")
        buffer.hold(one, "e2", 1)
    assert effects.tables.sizes() == {"unproved_publications": (20, 20)}
    assert effects.counts["unproved_dropped"] == 80

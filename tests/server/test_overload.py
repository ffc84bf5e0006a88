"""A server that cannot keep up: it says so to publishers, here and elsewhere, and loses nothing."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.broker.notices import decode_entry
from nearcast.server.broker_messages import Copies
from nearcast.server.mesh_messages import MeshMessage, encode_mesh
from nearcast.server.overload import busiest
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.proof_messages import Vouch
from nearcast.server.publisher_messages import Forward
from nearcast.server.server import Server
from nearcast.server.server_settings import ClientAccess, ServerSettings
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder, TopicOrder
from nearcast.server.subscriber_messages import (
    SyncDone,
)
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.whole_pass import whole_pass
from nearcast.wire.actions import Acknowledged, Home, SendDatagram
from nearcast.wire.client_session import ClientSession
from nearcast.wire.codec import encode
from nearcast.wire.messages import Publish
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Publication

CLIENT = ("car", 1)
AUTHORITY = SmallAuthority()


class OneEdge:
    """An edge server alone, a publisher, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        server_key, client_key = bytes(range(32)), bytes(range(1, 33))
        counter = iter(range(1, 1_000_000))

        def random_bytes(count: int) -> bytes:
            return next(counter).to_bytes(count, "big")

        self.edge = Server(
            ServerSettings("e1"),
            PeerChannels(1),
            lambda: self.now,
            AUTHORITY.trust(),
            server_key,
            access=ClientAccess(random_bytes),
            chance=Random(1),
        )
        assert self.edge.clients is not None
        self.clients = self.edge.clients
        orders = Orders(
            1,
            1,
            "cloud",
            (ServerOrder("e1", "e1", 7000, public_key(server_key)),),
            (TopicOrder("t", 100, ("e1",)),),
            (ClientOrder("car", "e1", {"t": "e1"}),),
        )
        self.edge.obey(orders, self.now)
        home = Home(("e1", 7000), public_key(server_key))
        self._home, self._random_bytes, self._others = home, random_bytes, list[ClientSession]()
        self.client = self._connect("car", client_key)
        self.acked = 0
        for _ in range(5):
            self.step(0.0)

    def enter(self, name: str) -> ClientSession:
        """Connect another client."""
        self._others.append(self._connect(name, bytes(range(2, 34))))
        for _ in range(5):
            self.step(0.0)
        return self._others[-1]

    def _connect(self, name: str, key: bytes) -> ClientSession:
        credential = AUTHORITY.client(name, public_key(key))
        client = ClientSession(key, self._home, self._random_bytes, None, credential)
        client.connect(self.now)
        return client

    def step(self, queue_age_s: float | None, elapsed_s: float = 0.02) -> None:
        self.now += elapsed_s
        items = self.client.poll(self.now)
        self.acked = max([self.acked, *(i.up_to for i in items if isinstance(i, Acknowledged))])
        batch = [(item.data, CLIENT) for item in items if isinstance(item, SendDatagram)]
        for number, other in enumerate(self._others):
            items = other.poll(self.now)
            batch += [(i.data, ("other", number)) for i in items if isinstance(i, SendDatagram)]
        out = whole_pass(self.edge, batch, self.now, queue_age_s)
        tickets = [group.ticket for group in out.to_store]
        sent = out.datagrams + self.edge.on_committed(tickets, self.now).datagrams
        self.client.receive([one.data for one in sent if one.address == CLIENT], self.now)
        for number, other in enumerate(self._others):
            address = ("other", number)
            other.receive([one.data for one in sent if one.address == address], self.now)

    def spooled(self) -> list[int]:
        live = self.edge.broker.export_topic("t")
        return [decode_entry("t", record).sequence for record in live.records]


def test_a_hiccup_turns_nobody_away() -> None:
    one = OneEdge()
    for age_s in (0.2, 0.2, 0.0, 0.2, 0.2):
        one.client.publish("t", b"x", one.now)
        one.step(age_s)
    assert one.edge.counts["busy"] == 0
    assert one.spooled() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("cause", ["queue", "disk"])
def test_a_queue_that_stands_turns_publishers_away_and_loses_nothing(cause: str) -> None:
    one = OneEdge()
    for _ in range(15):
        one.client.publish("t", b"x", one.now)
        if cause == "disk":
            one.edge.commit_wait_s = 5.0
        one.step(0.2 if cause == "queue" else 0.0)
    assert one.edge.counts["busy"] > 0
    taken = one.spooled()
    assert len(taken) < 15
    assert taken == list(range(1, len(taken) + 1))
    one.edge.commit_wait_s = 0.0
    for _ in range(100):
        one.step(0.0)
    assert one.spooled() == list(range(1, 16))
    assert one.acked == 15


def test_urgent_messages_are_taken_while_the_disk_stalls_but_not_for_ever() -> None:
    one = OneEdge()
    one.edge.commit_wait_s = 5.0
    one.client.publish("t", b"x", one.now)
    one.step(None)  # in a marked datagram
    assert (one.edge.counts["busy"], one.spooled()) == (0, [1])
    one.client.publish("t", b"x", one.now)
    one.step(0.0)
    assert (one.edge.counts["busy"], one.spooled()) == (1, [1])
    other = one.enter("other")
    one.edge.commit_wait_s = 11.0
    other.publish("t", b"x", one.now)
    one.step(None)
    assert (one.edge.counts["busy"], one.spooled()) == (2, [1])


def test_who_sends_most_is_sent_back_and_the_others_are_served() -> None:
    one = OneEdge()
    greedy = one.enter("greedy")
    for step in range(40):
        one.client.publish("t", b"x", one.now)
        for _ in range(20):
            greedy.publish("u", b"x", one.now, durable=step > 20)  # it waits when it is told to
        one.step(0.2)
    assert one.edge.counts["busy"] > 0
    assert one.edge.counts["overload_dropped"] > 200
    one.step(0.0)
    assert one.acked == 40
    assert one.spooled() == list(range(1, 41))


def test_where_all_send_about_as_much_nobody_is_the_busiest() -> None:
    def found(*counts: int) -> set[int]:
        return set(map(int, busiest({str(at): count for at, count in enumerate(counts)})))

    assert found(60, 2, 2) == {0}
    assert found(20, 20, 1, 1, 1) == {0, 1}
    for counts in ((), (64,), (32, 32), (1,) * 64, (2, *(1,) * 62)):
        assert not found(*counts)


def test_strangers_that_are_served_at_once_do_not_hide_a_queue_that_stands() -> None:
    one = OneEdge()
    for _ in range(15):
        one.client.publish("t", b"x", one.now)
        one.step(0.2)
        one.edge.on_strangers([(bytes(300), ("10.0.0.1", 1))], one.now)
    assert one.edge.counts["busy"] > 0
    assert one.clients.sessions.drops["unknown_kind"] == 15


class OneCloud:
    """A server without clients, and a home that forwards to it."""

    def __init__(self, brokers: tuple[str, ...] = ("cloud",)) -> None:
        self.now = 1_700_000_000.0
        self.cloud = Server(
            ServerSettings("cloud"),
            PeerChannels(1),
            lambda: self.now,
            AUTHORITY.trust(),
            bytes(32),
            chance=Random(1),
        )
        servers = (ServerOrder("e1", "e1", 7000, bytes(32)), ServerOrder("cloud", "", 0, b""))
        topics = (TopicOrder("t", 100, brokers),)
        self.cloud.obey(
            Orders(1, 1, "cloud", servers, topics, (ClientOrder("car", "e1"),)), self.now
        )
        self.groups = self.frames = 0
        for question in (1, 2):  # at its start, and about its topic
            self.hear(SyncDone(question))
        self.hear(Vouch((AUTHORITY.client("car", bytes(32)),)))

    def forward(self, sequence: int, oldest: int = 1, published_us: int = 1) -> None:
        one = Publication("t", "car", 1, sequence, published_us, 2, 0.0, 0.0, b"x", oldest=oldest)
        self.hear(Forward("t", (one.record(),), (oldest,)))

    def hear(self, message: MeshMessage) -> None:
        self.frames += 1
        frame = encode_frame(PeerFrame(5, False, 1, self.frames, [encode_mesh(message)], 0, 0))
        out = self.cloud.on_mesh("e1", frame, self.now)
        self.groups += len(out.to_store)


@pytest.mark.parametrize("oldest", [0, 1, "rising"])
def test_a_forward_that_is_repeated_while_the_disk_stalls_is_one_group(oldest: int | str) -> None:
    """Also when its home says that more is settled than the message itself."""
    one = OneCloud()
    for number in range(1_001):
        one.forward(1, number if oldest == "rising" else int(oldest))
    assert one.groups == one.cloud.broker.waiting == 1
    assert one.cloud.counts["duplicates"] == 1_000


def test_forwards_are_turned_away_while_the_disk_stalls() -> None:
    one = OneCloud()
    for number in range(1, 11):
        one.forward(number)
    one.cloud.commit_wait_s = 5.0
    for number in range(11, 1_001):
        one.forward(number)
    assert one.groups == one.cloud.broker.waiting == 10
    assert one.cloud.counts["busy"] == 990
    one.cloud.commit_wait_s = 0.0
    one.forward(11)  # its publisher sends it again
    assert one.groups == 11


_LATEST_US = 2**64 - 1


@pytest.mark.parametrize("durable", [True, False])
def test_a_time_out_of_range_stops_nobody(durable: bool) -> None:
    """It is refused; before, it came as far as an encoder, in this pass and all later ones."""
    one = OneEdge()
    one.client.subscribe("t")
    for _ in range(60):
        one.step(0.0)
    link = one.client._home.link
    assert link is not None
    hostile = Publish("t", one.client.epoch, 1, 1, durable, b"x", published_us=_LATEST_US)
    sealed = link.channel.seal(encode(hostile))
    out = whole_pass(one.edge, [(sealed, CLIENT)], one.now)
    assert not out.to_store
    assert one.clients.sessions.drops["invalid_field"] == 1
    one.client.publish("t", b"x", one.now)
    for _ in range(10):
        one.step(0.0)
    assert one.acked == 1


def test_a_home_that_forwards_a_time_out_of_range_stops_nobody() -> None:
    one = OneCloud()
    one.forward(1, published_us=_LATEST_US)
    assert one.cloud.counts["mesh_refused"] == 1
    assert one.groups == 0
    one.forward(1)
    assert one.groups == 1


def test_a_bug_in_one_topic_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = OneEdge()
    for topic in ("u", "t", "v"):
        one.client.publish(topic, b"x", one.now)
    one.step(0.0)
    broken = one.edge.broker.topics["t"]

    def fail(*_arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(broken, "begin", fail)
    monkeypatch.setattr(broken, "run", fail)
    for _ in range(3):
        for topic in ("u", "t", "v"):
            one.client.publish(topic, b"x", one.now)
        for _ in range(20):
            one.step(0.0)
    assert {topic: len(each.spool) for topic, each in one.edge.broker.topics.items()} == {
        "u": 4,
        "t": 1,
        "v": 4,
    }
    assert one.edge.counts["internal_errors"] > 0


def test_copies_are_put_off_while_the_disk_stalls_and_asked_for_afterwards() -> None:
    """A disk that stays full must not fill the memory as well."""
    one = OneCloud(brokers=("cloud", "e1"))
    record = Publication("t", "car", 1, 1, 1, 2, 0.0, 0.0, b"x", oldest=1).record()
    one.cloud.commit_wait_s = 60.0
    for _ in range(1_000):
        one.hear(Copies("t", (record,)))
    assert one.groups == one.cloud.broker.waiting == 0
    assert one.cloud.counts["copies_put_off"] == 1_000
    waiting = one.cloud._peers.unacknowledged("e1")
    one.cloud.commit_wait_s = 0.0
    one.hear(SyncDone(0))
    assert one.cloud._peers.unacknowledged("e1") == waiting + 1  # SpoolDamaged, once
    one.hear(Copies("t", (record,)))
    assert one.groups == 1

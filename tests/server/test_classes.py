"""Message classes at a server: rights, rates, overtaking, and nothing that is told late."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nearcast.server.peer_channel import decode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.testing.whole_pass import whole_pass
from nearcast.trust.rights import EVERYTHING, Rights
from nearcast.wire.actions import PublicationRefused, SendDatagram
from nearcast.wire.envelope import make_envelope, read_envelope
from nearcast.wire.framing import URGENT_HEADER
from nearcast.wire.messages import RefuseReason

PLAIN = Rights(("#",), ("#",))


def site_of(rights: Rights = EVERYTHING) -> tuple[SimulatedSite, SimulatedClient, SimulatedClient]:
    """Return a site of one server, a publisher with these rights, and a subscriber of all."""
    site = SimulatedSite(1)
    site.add_server("e1")
    car, sign = site.add_client("car", "e1", rights=rights), site.add_client("sign", "e1")
    orders = tuple(ClientOrder(one.name, "e1") for one in (car, sign))
    site.obey(Orders(1, 0, "", site.server_orders(), (), orders))
    site.connect([car, sign])
    site.run(3.0)
    sign.subscribe("#")
    site.run(3.0)
    return site, car, sign


def publish(
    client: SimulatedClient, topic: str, message_class: str, *, durable: bool = True
) -> None:
    envelope = make_envelope(message_class=message_class)
    now = client.site.now
    urgent = bool(message_class) and message_class != "consumer"
    client.session.publish(topic, b"x", now, envelope=envelope, urgent=urgent, durable=durable)
    client.go_on()


def refusals(client: SimulatedClient) -> list[RefuseReason]:
    return [one.reason for _, one in client.events if isinstance(one, PublicationRefused)]


@pytest.mark.parametrize("durable", [True, False])
def test_a_message_of_a_class_arrives_with_it(durable: bool) -> None:
    site, car, sign = site_of()
    publish(car, "a", "emergency", durable=durable)
    publish(car, "a", "consumer", durable=durable)
    site.run(1.0)
    assert [one.message_class for one in sign.notified] == ["emergency", "consumer"]


def test_who_has_no_right_to_a_class_is_refused_and_consumers_need_none() -> None:
    site, car, sign = site_of(PLAIN)
    publish(car, "a", "emergency")
    publish(car, "a", "consumer")
    publish(car, "a", "unheard-of")
    site.run(1.0)
    assert [one.message_class for one in sign.notified] == ["consumer"]
    assert refusals(car) == [RefuseReason.CLASS_NOT_ALLOWED] * 2


def test_more_than_a_class_may_be_used_is_told_but_overtakes_nobody() -> None:
    site, car, sign = site_of()
    for _ in range(50):
        publish(car, "a", "emergency", durable=False)
    site.run(1.0)
    node = site.servers["e1"].node
    assert node is not None
    assert len(sign.notified) == 50
    assert node.counts["urgent"] >= 20
    assert node.counts["urgent"] + node.counts["urgent_too_many"] == 50
    assert node.counts["urgent_too_many"] > 0


def test_a_class_that_drops_late_messages_has_a_validity_from_its_home_on() -> None:
    site, car, sign = site_of()
    publish(car, "a", "control")
    publish(car, "a", "emergency")
    site.run(1.0)
    control, emergency = (read_envelope(one.envelope) for one in sign.notified)
    assert control.valid_until_us == sign.notified[0].received_us + 10_000
    assert emergency.valid_until_us == 0


def datagrams(client: SimulatedClient) -> Sequence[bytes]:
    sent = client.session.poll(client.site.now)
    return [one.data for one in sent if isinstance(one, SendDatagram)]


def test_urgent_publications_travel_first_in_marked_datagrams_with_what_must_precede_them() -> None:
    site, car, _ = site_of()
    now = site.now
    datagrams(car)
    emergency = make_envelope(message_class="emergency")
    car.session.publish("slow", b"1", now)
    car.session.publish("mixed", b"2", now)
    car.session.publish("mixed", b"3", now, envelope=emergency, urgent=True)
    sent = datagrams(car)
    assert [one[:2] == URGENT_HEADER for one in sent] == [True, False]
    node = site.servers["e1"].node
    assert node is not None
    assert node.sessions is not None
    address = node.sessions.address_of("car")
    assert address is not None
    out = whole_pass(node, [(sent[0], address)], now, None)
    rows = [row[0] for row in out.publications]
    assert rows == ["mixed", "mixed"]


def test_a_server_whose_queue_stands_turns_ordinary_messages_away_and_no_urgent_ones() -> None:
    site, car, _ = site_of()
    node = site.servers["e1"].node
    assert node is not None
    assert node.sessions is not None
    address = node.sessions.address_of("car")
    assert address is not None
    emergency, now = make_envelope(message_class="emergency"), site.now
    datagrams(car)
    for step in range(20):
        now += 0.02
        car.session.publish(f"slow{step}", b"", now)
        car.session.publish("alarm", b"", now, envelope=emergency, urgent=True)
        for one in datagrams_at(car, now):
            whole_pass(node, [(one, address)], now, None if one[1] else 0.2)
    assert node.counts["busy"] > 0
    topics = node.broker.topics
    assert topics["alarm"].end == 20
    assert f"slow{step}" not in topics


def datagrams_at(client: SimulatedClient, now: float) -> Sequence[bytes]:
    return [one.data for one in client.session.poll(now) if isinstance(one, SendDatagram)]


def test_topics_with_urgent_messages_are_processed_and_told_first_in_a_pass() -> None:
    site, car, sign = site_of()
    for topic in ("a", "b"):
        publish(car, topic, "")
    site.run(1.0)
    heard = len(sign.notified)
    emergency = make_envelope(message_class="emergency")
    car.session.publish("a", b"slow", site.now)
    car.session.publish("b", b"alarm", site.now, envelope=emergency)  # in the same datagram
    car.go_on()
    site.run(1.0)
    assert [one.payload for one in sign.notified[heard:]] == [b"alarm", b"slow"]


def test_an_urgent_message_to_a_server_overtakes_what_was_not_sent() -> None:
    channels = PeerChannels(7)
    channels.send("e2", b"sent")
    first = channels.poll(0.0)
    for index in range(3_000):  # more than may be in flight
        channels.send("e2", b"%d" % index)
    channels.send("e2", b"urgent 1", urgent=True)
    channels.send("e2", b"urgent 2", urgent=True)
    frames = [decode_frame(frame) for _, frame in (*first, *channels.poll(0.0))]
    got = [message for frame in frames if frame is not None for message in frame.messages]
    assert got[:4] == [b"sent", b"urgent 1", b"urgent 2", b"0"]
    numbers = [frame.first for frame in frames if frame is not None]
    assert numbers == sorted(numbers)
    assert channels.waiting("e2") == 3_003

"""Clients and servers over a bad network: what is promised holds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import WireError
from nearcast.wire.actions import (
    Confirmed,
    Connected,
    Disconnected,
    EchoReturned,
    HomeUnreachable,
    SessionOpened,
)
from nearcast.wire.client_connection import ClientConnection
from nearcast.wire.framing import PATIENT_HEADER, SEALED_HEADER
from nearcast.wire.limits import payload_limit
from nearcast.wire.messages import CloseReason, Notify, Report
from nearcast.wire.settings import WireSettings
from wire.world import Client, Network, World

BAD = Network(loss=0.2, duplication=0.1, least_delay_s=0.001, most_delay_s=0.08)


def _notification(sequence: int, part: int = 0, payload: bytes = b"alert") -> Notify:
    return Notify("alerts", "car 7", 5, sequence, True, part, payload)


def _expected(messages: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(1, messages + 1)]


def test_a_client_connects_publishes_and_is_acknowledged() -> None:
    world = World(1)
    server = world.add_server()
    client = world.add_client("car", server.home)
    client.session.report(Report(1.5, 2.5, 90.0, 13.0))
    assert client.session.publish("a/b", b"early", world.now, position=(3.0, 4.0)) == 1
    world.run(1.0)
    opened = server.events[0]
    assert isinstance(opened, SessionOpened)
    assert (opened.client, opened.address) == ("car", client.address)
    assert (opened.init.x_km, opened.init.speed_mps) == (1.5, 13.0)
    assert world.broker.taken == {("car", "a/b"): [(1, b"early")]}
    assert client.acked == {"a/b": 1}
    assert client.session.unacknowledged == 0
    assert isinstance(client.events[0], Connected)
    assert client.events[0].epoch >= int(world.now - 2) * 10**6
    assert not server.sessions.drops
    assert not client.session.drops


def test_a_publication_is_sent_before_all_else_that_is_due_and_once() -> None:
    world = World(1)
    client = world.add_client("car", world.add_server().home)
    client.session.publish("a/b", b"early", world.now)
    assert client.session.send_publications(world.now) == []  # without a session
    world.run(1.0)
    client.session.publish("a/b", b"now", world.now)
    (sent,) = client.session.send_publications(world.now)
    assert client.session.send_publications(world.now) == []
    assert client.session.poll(world.now) == []
    world.transmit(sent.data, client.address, sent.address)
    world.run(1.0)
    assert client.acked == {"a/b": 2}
    assert client.session.unacknowledged == 0


def test_to_publish_is_no_reason_to_look_at_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[float]()
    look = ClientConnection.watch

    def watch(connection: ClientConnection, now: float) -> bool:
        looks.append(now)
        return look(connection, now)

    monkeypatch.setattr(ClientConnection, "watch", watch)
    world = World(1)
    client = world.add_client("car", world.add_server().home)
    world.run(1.0)
    client.session.poll(world.now)
    looks.clear()
    for number in (1, 2):
        client.session.publish("a/b", b"now", world.now)
        assert client.session.next_wakeup() <= world.now
        (sent,) = client.session.send_publications(world.now)
        assert client.session.poll(world.now) == []
        assert looks == []
        assert client.session.next_wakeup() > world.now
        world.transmit(sent.data, client.address, sent.address)
        world.run(0.1)
        assert client.acked == {"a/b": number}
        looks.clear()
    client.session.publish("a/b", b"lost", world.now)
    client.session.send_publications(world.now)  # and nobody transmits it
    client.session.poll(world.now)
    world.run(3.0)  # so it was noted when to send it again
    assert client.acked == {"a/b": 3}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0, 0.4),
    duplication=st.floats(0, 0.5),
    most_delay_s=st.floats(0.001, 0.3),
    attacks=st.floats(0, 1),
    moves=st.integers(0, 3),
)
def test_durable_publications_arrive_in_order_and_are_acknowledged(
    seed: int, loss: float, duplication: float, most_delay_s: float, attacks: float, moves: int
) -> None:
    world = World(seed, Network(loss, duplication, 0.001, most_delay_s, attacks))
    server = world.add_server()
    server.is_busy = lambda publish: world.random.random() < 0.05
    clients = [world.add_client(f"car {number}", server.home) for number in range(2)]
    for client in clients:
        for topic in ("speed", "hazard") * 40:
            world.later(world.random.uniform(0, 3), partial(client.publish_next, topic))
    for move in range(moves):
        world.later(0.7 * (move + 1), clients[0].move)
    world.run(4.0)
    world.run(200.0, until=lambda: not any(client.session.unacknowledged for client in clients))
    for client, name in zip(clients, ("car 0", "car 1"), strict=True):
        assert client.acked == {"speed": 40, "hazard": 40}
        assert world.broker.taken[name, "speed"] == _expected(40)
        assert world.broker.taken[name, "hazard"] == _expected(40)


@pytest.mark.parametrize("seed", range(30))
def test_under_attack_nothing_is_lost_repeated_or_amplified(seed: int) -> None:
    network = Network(0.15, 0.1, 0.001, 0.05, attacks=5.0)
    world = World(seed, network, WireSettings(inits_per_s=(0, 500, 5)[seed % 3]))
    server = world.add_server()
    clients = [world.add_client(f"car {number}", server.home) for number in range(2)]
    names = ("car 0", "car 1")
    world.run(60.0, until=lambda: len(server.sessions.clients) == 2)
    for number in range(1, 31):
        for client, name in zip(clients, names, strict=True):
            client.publish_next("speed")
            world.later(number / 20, partial(server.sessions.notify, name, [_notification(number)]))
    world.run(10.0)
    world.run(100.0, until=lambda: not any(client.session.unacknowledged for client in clients))
    for client, name in zip(clients, names, strict=True):
        assert client.acked == {"speed": 30}
        assert sorted(client.notified) == [("alerts", number, 0) for number in range(1, 31)]
        assert world.broker.taken[name, "speed"] == _expected(30)
    # The addresses of the attacker: never sent more than they sent, and nobody stays there.
    hostile = [address for address in server.bytes_in if address[0].startswith("66.")]
    assert len(hostile) == 4
    assert all(server.bytes_out[address] <= server.bytes_in[address] for address in hostile)
    assert set(server.sessions.clients) == set(names)
    for client, name in zip(clients, names, strict=True):
        # it takes a relay of a question and of its answer, faster than the client, to be there
        assert server.sessions.address_of(name) == client.addresses[-1]
    assert world.attacks > 300
    assert sum(server.sessions.drops.values()) > 100


@pytest.mark.parametrize("seed", range(10))
def test_notifications_arrive_exactly_once_over_a_bad_network(seed: int) -> None:
    world = World(seed, BAD)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(10.0, until=lambda: bool(server.sessions.clients))
    for number in range(1, 101):
        both = [_notification(number), _notification(number, part=1)]
        world.later(number / 50, partial(server.sessions.notify, "car", both))
    world.later(1.0, client.move)
    world.run(70.0)
    assert sorted(client.notified) == [
        ("alerts", number, part) for number in range(1, 101) for part in (0, 1)
    ]
    assert not server.sessions._table.by_client["car"].awaits_receipts
    assert server.sessions.address_of("car") == client.addresses[-1]


def test_a_lost_notification_comes_again_soon_after_the_next_one_has_shown_the_gap() -> None:
    world = World(5)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.network.loss = 1.0
    server.sessions.notify("car", [_notification(1)])
    world.run(0.01)
    world.network.loss = 0.0
    server.sessions.notify("car", [_notification(2)])
    world.run(0.01)
    assert client.notified == [("alerts", 2, 0)]
    world.run(0.02 + 2 * world.network.most_delay_s)
    assert client.notified == [("alerts", 2, 0), ("alerts", 1, 0)]


def test_only_receipts_that_have_waited_and_tell_of_no_loss_are_marked_as_patient() -> None:
    world = World(8)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)

    def marks(seconds: float) -> set[bytes]:
        start = len(world.seen)
        world.run(seconds)
        return {data[:2] for data, to in world.seen[start:] if to == server.home.address}

    assert marks(0.5) <= {SEALED_HEADER}  # reports
    server.sessions.notify("car", [_notification(1)])
    assert marks(0.3) == {PATIENT_HEADER}
    for number in range(2, 60):
        server.sessions.notify("car", [_notification(number, payload=bytes(900))])
    assert SEALED_HEADER in marks(0.05)  # the server may wait for room
    world.run(0.3)
    world.network.loss = 1.0
    server.sessions.notify("car", [_notification(60)])
    world.run(0.002)
    world.network.loss = 0.0
    server.sessions.notify("car", [_notification(61)])
    assert marks(0.05) == {SEALED_HEADER}  # of the gap
    server.sessions.notify("car", [_notification(62)])
    world.run(0.003)
    client.publish_next("t")
    assert marks(0.002) == {SEALED_HEADER}  # what travels along does not make others wait


def test_after_one_loss_a_fast_row_of_notifications_is_not_repeated() -> None:
    world = World(7)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.network.loss = 1.0
    server.sessions.notify("car", [_notification(0)])
    world.run(0.002)
    world.network.loss = 0.0
    before = server.datagrams_out
    for number in range(1, 601):
        server.sessions.notify("car", [_notification(number, payload=bytes(900))])
        world.run(0.001)
    world.run(2.0)
    assert len(client.notified) == 601
    assert server.datagrams_out - before <= 601 + 5  # the lost one again, and answers to reports


def test_receipts_that_lie_have_each_notification_sent_once_more_and_no_more() -> None:
    world = World(6)
    server = world.add_server()
    world.add_client("car", server.home)
    world.run(1.0)
    session = server.sessions._table.by_client["car"]
    server.sessions.notify("car", [_notification(n, payload=bytes(900)) for n in range(50)])
    assert len(server.sessions.flush(server.now)) == 50  # none of them arrives
    sent = 0
    for number in range(100):
        highest = session.channel.counter + number
        if session.on_received(highest, 1, 0, server.now):
            sent += len(session.resend(server.now))
    assert sent == 50


def test_a_client_with_a_long_way_is_not_sent_everything_twice() -> None:
    world = World(6)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.network.least_delay_s = world.network.most_delay_s = 0.4
    for number in range(100):
        server.sessions.notify("car", [_notification(number, payload=bytes(900))])
        world.run(0.1)
        if number == 40:  # it has learned by then what the way takes
            before = server.datagrams_out
    world.run(3.0)
    assert len(client.notified) == 100
    assert server.datagrams_out - before <= 59 + 5


def test_notifications_of_one_pass_share_datagrams_within_the_limit() -> None:
    world = World(3)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    before = server.datagrams_out
    server.sessions.notify("car", [_notification(n, payload=bytes(200)) for n in range(20)])
    server.sessions.acknowledge("car", "speed", 1, 1)
    world.run(0.2)
    assert len(client.notified) == 20
    # 20 frames of 227 bytes, 5 to a datagram, and the acknowledgement in the first
    assert server.datagrams_out - before == 4
    server.sessions.notify("car", [_notification(n, payload=b"") for n in range(100, 230)])
    world.run(0.2)
    assert len(client.notified) == 150
    assert server.sessions.notify("nobody", [_notification(1)]) is False


def test_oversize_messages_are_refused_at_the_sender() -> None:
    world = World(4)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    with pytest.raises(WireError, match=r"speed: .* exceeds the limit of \d+ bytes"):
        client.session.publish("speed", bytes(1_200), world.now)
    with pytest.raises(WireError, match="exceeds the limit"):
        client.session.echo(bytes(1_200), world.now)
    with pytest.raises(WireError, match="exceeds the limit of 1170"):
        server.sessions.notify("car", [_notification(1), _notification(2, payload=bytes(1_200))])
    with pytest.raises(WireError, match="more than 256 bytes"):
        client.session.subscribe("x" * 257)
    with pytest.raises(WireError, match="more than 16 levels"):
        client.session.publish("/" * 16, b"", world.now)
    with pytest.raises(WireError, match="not finite"):
        client.session.report(Report(float("nan"), 0.0))
    fits = [size for size in range(900, 1_200) if _fits(client, size)]
    assert fits == list(range(900, max(fits) + 1))
    assert max(fits) == payload_limit("speed", "car", world.settings.datagram_limit)
    world.run(1.0)
    assert client.notified == []
    assert client.acked == {"speed": len(fits)}


def _fits(client: Client, size: int) -> bool:
    try:
        client.session.publish("speed", bytes(size), client.world.now)
    except WireError:
        return False
    return True


def test_large_datagrams_can_be_configured() -> None:
    world = World(5, settings=WireSettings(datagram_limit=65_507))
    server = world.add_server()
    client = world.add_client("car", server.home)
    client.session.publish("video", bytes(60_000), world.now)
    world.run(1.0)
    assert client.acked == {"video": 1}


def test_too_many_waiting_publications_are_refused() -> None:
    world = World(6, settings=WireSettings(publish_limit=10))
    client = world.add_client("car", world.add_server().home)
    for _ in range(10):
        client.session.publish("speed", b"", world.now)
    with pytest.raises(WireError, match="10 publications wait"):
        client.session.publish("speed", b"", world.now)
    world.run(1.0)
    assert client.session.publish("speed", b"", world.now) == 11


def test_fire_and_forget_is_sent_once() -> None:
    world = World(7, Network(loss=0.3))
    server = world.add_server()
    client = world.add_client("car", server.home)
    assert client.session.publish("speed", b"", world.now, durable=False) == 1
    assert client.session.drops == {"not_connected": 1}
    world.run(20.0, until=lambda: bool(server.sessions.clients))
    for number in range(200):
        world.later(
            number / 100, lambda: client.session.publish("speed", b"", world.now, durable=False)
        )
    world.run(5.0)
    arrived = [publish.sequence for _, publish in world.broker.once]
    assert sorted(set(arrived)) == arrived
    assert 100 < len(arrived) < 170
    assert client.acked == {}


def test_subscriptions_are_confirmed_refused_and_asked_for_again_in_a_new_session() -> None:
    world = World(8, BAD)
    server = world.add_server()
    client = world.add_client("car", server.home)
    client.session.subscribe("alerts")
    client.session.subscribe("forbidden")
    world.run(30.0)
    answers = {event for event in client.events if isinstance(event, Confirmed)}
    assert answers == {
        Confirmed("alerts", True, True, ""),
        Confirmed("forbidden", True, False, ""),
    }
    client.events.clear()
    server.sessions.close("car", CloseReason.STOPPED, world.now)
    world.run(60.0)
    # the goodbye may be lost: then the client notices that nobody answers
    heard = [type(event) for event in client.events if not isinstance(event, Disconnected)]
    assert heard == [Connected, Confirmed]
    client.session.unsubscribe("alerts")
    world.run(10.0)
    assert client.events[-1] == Confirmed("alerts", False, True, "")


def test_echo_measures_the_round_trip() -> None:
    world = World(9, Network(least_delay_s=0.03, most_delay_s=0.03))
    client = world.add_client("car", world.add_server().home)
    world.run(1.0)
    client.session.echo(b"ping", world.now)
    world.run(1.0)
    (echo,) = [event for event in client.events if isinstance(event, EchoReturned)]
    assert echo.payload == b"ping"
    assert echo.round_trip_s == pytest.approx(0.06, abs=0.005)


def test_a_silent_session_is_pruned_after_three_missed_reports_and_comes_back() -> None:
    world = World(10)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(25.0)
    assert server.sessions.clients == ("car",)
    world.network.loss = 1.0
    world.run(19.0)
    assert server.sessions.clients == ("car",)  # the last report was at most 29 s ago
    client.session.publish("speed", b"kept", world.now)
    world.run(12.0)
    (closed,) = world.closed()
    assert (closed.client, closed.reason) == ("car", CloseReason.SILENT)
    assert Disconnected(server.home, CloseReason.SILENT) in client.events
    world.run(20.0)
    assert any(isinstance(event, HomeUnreachable) for event in client.events)
    world.network.loss = 0.0
    world.run(10.0)
    assert server.sessions.clients == ("car",)
    assert world.broker.taken == {("car", "speed"): [(1, b"kept")]}
    assert client.acked == {"speed": 1}


@pytest.mark.parametrize("seed", range(10))
def test_a_redirected_client_takes_its_unacknowledged_publications_along(seed: int) -> None:
    world = World(seed, BAD)
    old, new = world.add_server("old"), world.add_server("new")
    old.sync_s = 0.2
    client = world.add_client("car", old.home)
    world.run(60.0, until=lambda: bool(old.sessions.clients))
    for number in range(1, 101):
        world.later(number / 50, partial(client.publish_next, "speed"))
    client.session.subscribe("alerts")
    world.later(1.0, lambda: old.sessions.redirect("car", new.home))
    world.run(90.0)
    assert client.session.home == new.home
    assert world.broker.taken["car", "speed"] == _expected(100)
    assert client.acked == {"speed": 100}
    assert old.sessions.clients == ()
    assert new.sessions.clients == ("car",)
    assert client.session.epoch == world.broker.gates["speed"].streams["car"].epoch


def test_a_redirected_client_says_goodbye_and_goes_on_at_once() -> None:
    world = World(11)
    old, new = world.add_server("old"), world.add_server("new")
    client = world.add_client("car", old.home)
    world.run(1.0)
    old.sync_s = 60.0  # nothing is acknowledged there any more
    for _ in range(100):
        client.publish_next("speed")
    world.run(20.0)  # pauses between repetitions have grown to seconds
    assert client.acked == {}
    old.sessions.redirect("car", new.home)
    world.run(0.1)
    assert client.acked == {"speed": 100}
    assert [closed.reason for closed in world.closed()] == [CloseReason.MOVED]


def test_the_same_seed_gives_the_same_bytes() -> None:
    transcripts = []
    for _ in range(2):
        world = World(20, replace(BAD, attacks=1.0))
        server = world.add_server()
        for number in range(3):
            client = world.add_client(f"car {number}", server.home)
            client.publish_next("speed")
            client.session.subscribe("alerts")
        world.run(15.0)
        transcripts.append(world.seen)
    assert len(transcripts[0]) > 20
    assert transcripts[0] == transcripts[1]


def test_a_redirection_to_a_dead_home_keeps_the_present_one() -> None:
    world = World(12)
    server, dead = world.add_server(), world.add_server("dead")
    client = world.add_client("car", server.home)
    world.run(1.0)
    del world.servers[dead.home.address]
    server.sessions.redirect("car", dead.home)
    client.session.publish("speed", b"x", world.now)
    world.run(25.0)
    assert HomeUnreachable(dead.home, 5) in client.events
    assert client.acked == {"speed": 1}
    assert client.session.home == server.home
    assert server.sessions.clients == ("car",)


def test_undelivered_notifications_are_handed_over_when_a_session_ends() -> None:
    world = World(13)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.network.loss = 1.0
    server.sessions.notify("car", [_notification(1), _notification(2)])
    world.run(40.0)
    (closed,) = world.closed()
    world.network.loss = 0.0
    world.run(10.0)
    assert client.notified == []
    server.sessions.notify("car", closed.undelivered)
    world.run(1.0)
    assert client.notified == [("alerts", 1, 0), ("alerts", 2, 0)]


def test_a_new_session_takes_over_what_the_last_one_left_unconfirmed() -> None:
    world = World(14)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.network.loss = 1.0
    server.sessions.notify("car", [_notification(1)])
    world.run(0.1)
    world.network.loss = 0.0
    client.session.connect(world.now)
    world.run(0.1)
    assert client.notified == [("alerts", 1, 0)]
    assert len([event for event in server.events if isinstance(event, SessionOpened)]) == 2
    assert world.closed() == []


def test_busy_pauses_the_topic_only() -> None:
    world = World(15)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    busy_until = world.now + 1.0
    server.is_busy = lambda publish: publish.topic == "speed" and world.now < busy_until
    for topic in ("speed", "hazard") * 10:
        client.publish_next(topic)
    world.run(0.5)
    assert client.acked == {"hazard": 10}
    assert 1 <= world.broker.refused <= 5
    world.run(2.0)
    assert client.acked == {"hazard": 10, "speed": 10}
    assert world.broker.taken["car", "speed"] == _expected(10)
    server.sessions.busy("car", 0.5)
    world.run(0.1)
    client.session.publish("new topic", b"", world.now)
    world.run(0.2)
    assert "new topic" not in client.acked
    world.run(0.5)
    assert client.acked["new topic"] == 1


def test_a_lost_publication_is_asked_for_before_its_time_is_up() -> None:
    world = World(16)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    for number in range(1, 21):
        world.network.loss = 1.0 if number == 5 else 0.0
        client.publish_next("speed")
        world.run(0.004)
    world.run(0.06)
    assert client.acked == {"speed": 20}


def test_revoked_clients_stay_away_and_closing_ends_the_session() -> None:
    world = World(17)
    server = world.add_server()
    revoked, leaving = (world.add_client(name, server.home) for name in ("revoked", "leaving"))
    world.run(1.0)
    server.sessions.close("revoked", CloseReason.REVOKED, world.now)
    leaving.session.close()
    world.run(60.0)
    assert server.sessions.clients == ()
    assert revoked.events[-1] == Disconnected(server.home, CloseReason.REVOKED)
    assert not revoked.session.is_connected
    assert [closed.reason for closed in world.closed()] == [CloseReason.REVOKED, CloseReason.DONE]


def test_a_session_whose_rekey_is_due_is_replaced_without_loss() -> None:
    world = World(18, settings=WireSettings(counter_limit=300))
    server = world.add_server()
    client = world.add_client("car", server.home)
    for number in range(1, 1_001):
        world.later(number / 100, partial(client.publish_next, "speed"))
    world.run(15.0)
    assert client.acked == {"speed": 1_000}
    assert world.broker.taken["car", "speed"] == _expected(1_000)
    assert len([event for event in server.events if isinstance(event, SessionOpened)]) >= 4


def test_keys_are_replaced_by_time_without_loss_and_notifications_go_on() -> None:
    world = World(18, settings=WireSettings(rekey_s=2.0, report_interval_s=0.2))
    server = world.add_server()
    client = world.add_client("car", server.home)

    def both(number: int) -> None:
        client.publish_next("speed")
        server.sessions.notify("car", [Notify("t", "bus", 1, number, True, 0, b"x")])

    for number in range(1, 1_001):
        world.later(1.0 + number / 100, partial(both, number))
    world.run(20.0)
    assert client.acked == {"speed": 1_000}
    assert world.broker.taken["car", "speed"] == _expected(1_000)
    assert [sequence for _, sequence, _ in client.notified] == list(range(1, 1_001))
    assert len([event for event in server.events if isinstance(event, SessionOpened)]) >= 8
    assert world.closed() == []


def test_a_server_ends_sessions_whose_client_never_replaces_their_keys() -> None:
    world = World(18, settings=WireSettings(rekey_s=1e9))
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    server.sessions._table._settings = WireSettings(rekey_s=5.0)
    world.run(11.0)
    server.handle(server.sessions.prune(world.now))
    world.run(3.0)
    assert [one.reason for one in world.closed()] == [CloseReason.REKEY]
    assert client.session.is_connected  # by new keys


def test_a_server_ends_a_session_before_its_counters_are_used_up() -> None:
    world = World(18)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    channel = server.sessions._table.by_client["car"].channel
    channel.counter = channel.rekey_at + 1
    server.sessions.notify("car", [_notification(1)])
    world.run(3.0)
    assert [one.reason for one in world.closed()] == [CloseReason.REKEY]
    assert client.session.is_connected  # by new keys
    assert [sequence for _, sequence, _ in client.notified] == [1]


def test_a_restarted_server_and_a_restarted_client_lose_nothing() -> None:
    world = World(19)
    key = world.random.randbytes(32)
    server = world.add_server("edge", key)
    client = world.add_client("car", server.home)
    client.session.publish("speed", b"1", world.now)
    world.run(1.0)
    world.add_server("edge", key)
    client.session.publish("speed", b"2", world.now)
    world.run(60.0)
    assert client.acked == {"speed": 2}
    first_epoch = client.session.epoch
    again = world.add_client("car", server.home)
    again.session.publish("speed", b"after restart", world.now)
    world.run(1.0)
    assert again.session.epoch > first_epoch
    assert again.acked == {"speed": 1}
    assert world.broker.taken["car", "speed"] == [(1, b"1"), (2, b"2"), (1, b"after restart")]


def test_a_client_finds_a_restarted_server_long_before_three_reports_are_missed() -> None:
    world = World(20)
    key = world.random.randbytes(32)
    server = world.add_server("edge", key)
    client = world.add_client("car", server.home)
    client.session.subscribe("alerts")
    world.run(5.0)
    client.events.clear()
    reborn = world.add_server("edge", key)
    client.session.publish("speed", b"1", world.now)
    world.run(4.0)
    assert client.acked == {"speed": 1}
    assert reborn.sessions.clients == ("car",)
    assert Confirmed("alerts", True, True, "") in client.events


def test_an_idle_client_on_a_lossy_way_keeps_its_session() -> None:
    world = World(21, Network(loss=0.2))
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(20.0, until=lambda: bool(server.sessions.clients))
    client.events.clear()
    world.run(300.0)
    assert client.events == []


@pytest.mark.parametrize("bad", [100, 65_508])
def test_settings_are_checked(bad: int) -> None:
    with pytest.raises(ValueError, match="datagram_limit"):
        WireSettings(datagram_limit=bad)
    with pytest.raises(ValueError, match="publish_window"):
        WireSettings(publish_window=0)
    with pytest.raises(ValueError, match="session_limit"):
        WireSettings(session_limit=1_000_000)


def test_only_so_many_publications_wait() -> None:
    world = World(1, settings=WireSettings(publish_limit=10))
    client = world.add_client("car", world.add_server().home)
    for number in range(10):
        client.session.publish(f"topic {number % 3}", b"", world.now)
    with pytest.raises(WireError, match="10 publications wait"):
        client.session.publish("topic 7", b"", world.now)
    world.run(2.0)
    assert client.session.unacknowledged == 0

"""Clients that send far more than they may are not heard for a moment, and nobody else is hurt."""

from __future__ import annotations

from nearcast.wire.channel import Channel
from nearcast.wire.codec import encode
from nearcast.wire.messages import Echo, Publish
from nearcast.wire.pace import LONGEST_MUTE_S, MUTE_S, Paces
from nearcast.wire.publication import Publication
from nearcast.wire.settings import WireSettings
from wire.world import Client, Server, World

SETTINGS = WireSettings(messages_per_s=1_000)
EVIL = ("6.6.6.6", 6)
ECHO = encode(Echo(b"x"))


def connected() -> tuple[World, Server, Client]:
    world = World(1, settings=SETTINGS)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    return world, server, client


def channel_of(client: Client) -> Channel:
    link = client.session._home.link
    assert link is not None
    return link.channel


def send(world: World, server: Server, client: Client, payload: bytes, count: int) -> int:
    """Return how many of so many datagrams were muted."""
    before, channel = server.sessions.drops["muted"], channel_of(client)
    for _ in range(count):
        server.sessions.receive([(channel.seal(payload), client.address)], world.now)
    server.sessions.flush(world.now)
    return server.sessions.drops["muted"] - before


def test_a_client_that_sends_far_too_much_is_muted_and_heard_again() -> None:
    world, server, client = connected()
    assert send(world, server, client, ECHO, 50_000) > 45_000
    assert server.sessions.has_newly_muted
    (index,) = server.sessions.muted(world.now)
    assert not server.sessions.has_newly_muted
    assert index == int.from_bytes(channel_of(client).seal(b"")[2:6], "big")
    assert server.sessions.paces.muted_count == 1
    world.now += MUTE_S
    assert send(world, server, client, ECHO, 1) == 0
    assert server.sessions.muted(world.now) == frozenset()
    assert server.sessions.paces.muted_count == 0
    world.now += 1.0
    assert send(world, server, client, ECHO, 50_000) > 45_000


def test_a_client_that_goes_on_is_muted_for_longer_and_forgiven_when_it_stops() -> None:
    world, server, client = connected()
    send(world, server, client, ECHO, 5_000)
    mutes = 0
    for _ in range(24 * 8):  # it goes on for 24 s
        server.sessions.muted(world.now)
        send(world, server, client, ECHO, 300)
        mutes += server.sessions.has_newly_muted
        world.now += 0.125
    assert mutes <= 5  # after 1, 2, 4, 8 and 8 s
    world.now += 2 * LONGEST_MUTE_S
    assert send(world, server, client, ECHO, 1) == 0
    world.now += LONGEST_MUTE_S
    send(world, server, client, ECHO, 5_000)
    world.now += MUTE_S
    assert send(world, server, client, ECHO, 1) == 0


def test_a_session_that_is_muted_does_not_end_as_silent() -> None:
    """Without it the kernel would not know what to drop."""
    world, server, client = connected()
    silent_s = SETTINGS.missed_reports * SETTINGS.report_interval_s
    send(world, server, client, ECHO, 50_000)
    (session,) = server.sessions._table.by_client.values()
    session.pace.muted_until = world.now + 2 * silent_s
    server.sessions.prune(world.now + 1.5 * silent_s)
    assert "car" in server.sessions
    server.sessions.prune(world.now + 3.5 * silent_s)
    assert "car" not in server.sessions


def test_twice_what_a_client_may_send_is_let_through() -> None:
    world, server, client = connected()
    for _ in range(2_000):
        assert send(world, server, client, ECHO, 19) == 0
        world.now += 0.01


def test_datagrams_with_many_messages_or_malformed_ones_count_for_more() -> None:
    once = encode(Publish("t", 1, 1, 1, False, b""))
    for payload in (64 * once, 63 * once + once[:-1]):
        world, server, client = connected()
        assert send(world, server, client, payload, 500) > 300


def test_a_new_session_brings_no_new_credit() -> None:
    world, server, client = connected()
    send(world, server, client, ECHO, 50_000)
    again = world.add_client("car", server.home)  # with another key
    world.run(0.5)
    assert server.sessions.half_open > 0  # it was answered, but is not heard
    world.run(2 * MUTE_S)
    assert server.sessions.address_of("car") == again.address


def test_nobody_can_have_another_client_muted() -> None:
    """Only what the client has sealed itself, and only once, counts against it."""
    world, server, client = connected()
    true = channel_of(client).seal(encode(Publish("t", 1, 1, 1, False, b"")))
    assert isinstance(server.sessions.receive([(true, client.address)], world.now)[0], Publication)
    forged = true[:-1] + bytes([true[-1] ^ 1])
    newer = true[:13] + b"\xff" + true[14:]
    for address in (EVIL, client.address):
        batch = [(data, address) for data in (true, forged, newer)] * 10_000
        server.sessions.receive(batch, world.now)
    assert server.sessions.drops["muted"] == 0
    assert send(world, server, client, ECHO, 1_000) == 0


def test_paces_are_kept_for_so_many_clients() -> None:
    paces = Paces(limit=100)
    first = paces.begin("c0", 1.0, 0.0)
    for number in range(1_000):
        paces.begin(f"c{number % 500}", 1.0, 0.0)
        assert len(paces) <= 100
    assert paces.begin("c0", 1.0, 0.0) is not first

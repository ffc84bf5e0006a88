"""A server that does not know a session says so, and the client is back at once."""

from __future__ import annotations

from nearcast.wire.actions import Connected
from nearcast.wire.framing import SEALED_OVERHEAD, UNKNOWN_BYTES, write_unknown
from nearcast.wire.server_sessions import ServerSessions
from wire.world import Client, Network, Server, World

DELAY_S = 0.02


def _connected(client: Client) -> int:
    return sum(isinstance(event, Connected) for event in client.events)


def _pair(seed: int = 1) -> tuple[World, Server, Client]:
    world = World(seed, Network(least_delay_s=DELAY_S, most_delay_s=DELAY_S))
    server = world.add_server(key=b"k" * 32)
    client = world.add_client("car", server.home)
    world.run(2.0)
    assert _connected(client) == 1
    return world, server, client


def _restart(world: World, server: Server) -> None:
    server.sessions = ServerSessions(b"k" * 32, world.admit, world.random.randbytes, world.settings)


def test_after_a_restart_a_publisher_is_back_after_two_round_trips() -> None:
    world, server, client = _pair()
    _restart(world, server)
    client.publish_next("speed")
    before = world.now
    world.run(5.0, until=lambda: _connected(client) == 2)
    # one to hear that the session is unknown, one for the handshake
    assert world.now - before < 6 * DELAY_S
    world.run(1.0)
    assert client.acked == {"speed": 1}


def test_an_unknown_that_answers_nothing_has_no_effect() -> None:
    world, server, client = _pair()
    client.publish_next("speed")
    world.run(1.0)
    sent = [data for data, target in world.seen if target == server.home.address]
    made_up = [world.random.randbytes(UNKNOWN_BYTES) for _ in range(1_000)]
    forged = [write_unknown(data) for data in made_up]
    true = write_unknown(sent[-1])
    forged += [true[:-1], true + b"\0", true[:-1] + bytes((true[-1] ^ 1,))]
    client.session.receive(forged, world.now)
    assert client.session.drops["unknown_forged"] == len(forged)
    before = len(world.seen)
    world.run(1.0)
    assert _connected(client) == 1
    assert len(world.seen) == before


def test_who_sees_the_datagrams_can_cause_one_handshake_a_second_and_no_more() -> None:
    world, server, client = _pair()
    attacks = 0
    for _ in range(1_000):
        sent = [data for data, target in world.seen if target == server.home.address]
        sealed = [data for data in sent if data[0] & 15 == 4]
        client.session.receive([write_unknown(sealed[-1])], world.now)
        attacks += 1
        client.publish_next("speed")
        world.run(0.01)
    assert attacks == 1_000
    assert 2 < _connected(client) <= 1 + 11
    world.run(5.0)
    assert client.acked == {"speed": 1_000}


def test_a_server_answers_an_unknown_session_in_fewer_bytes_and_at_a_bounded_rate() -> None:
    world, server, _client = _pair()
    sealed = [data for data, target in world.seen if data[0] & 15 == 4][-1]
    stranger = ("66.6.6.6", 666)
    unknown = sealed[:2] + b"\xff\xff\xff\xff" + sealed[6:]
    too_short = unknown[: SEALED_OVERHEAD - 1]
    server.sessions.receive([(too_short, stranger)], world.now)
    assert not server.sessions.flush(world.now)
    server.sessions.receive([(unknown[:SEALED_OVERHEAD], stranger)] * 5_000, world.now)
    answers = server.sessions.flush(world.now)
    assert 0 < len(answers) <= 200
    assert {len(one.data) for one in answers} == {UNKNOWN_BYTES}
    assert UNKNOWN_BYTES < SEALED_OVERHEAD
    assert server.sessions.drops["unknown_session"] == 5_001

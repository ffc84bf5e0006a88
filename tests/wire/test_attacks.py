"""Hostile datagrams, by count: none has an effect, none raises, none is answered with more."""

from __future__ import annotations

import random

import pytest

from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.channel import Channel
from nearcast.wire.client_session import ClientSession
from nearcast.wire.codec import COPY, encode
from nearcast.wire.framing import (
    INIT_BYTES,
    PROLOGUE,
    SEALED_OVERHEAD,
    InitKeys,
    Kind,
    read_header,
)
from nearcast.wire.init_gate import CookieJar, SeenKeys, TokenBuckets, owner_of, prefix_of
from nearcast.wire.messages import (
    Acknowledge,
    Close,
    Confirm,
    Echo,
    Heartbeat,
    Init,
    Message,
    Notify,
    Publish,
    Received,
    Redirect,
    Report,
    Subscribe,
)
from nearcast.wire.noise import InitiatorHandshake, public_key
from nearcast.wire.publication import Publication
from nearcast.wire.settings import Address, WireSettings
from wire.world import START, Client, Network, Server, World

EVIL: Address = ("66.6.6.6", 666)


def _connected(seed: int = 1, settings: WireSettings | None = None) -> tuple[World, Server, Client]:
    world = World(seed, settings=settings)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    assert server.sessions.clients == ("car",)
    return world, server, client


def _init(world: World, home: Home, name: str | None = "new") -> bytes:
    key = world.random.randbytes(32)
    if name is not None:
        world.enrolled[public_key(key)] = name
    session = ClientSession(key, home, world.random.randbytes, world.settings)
    session.connect(world.now)
    (send,) = session.poll(world.now)
    assert isinstance(send, SendDatagram)
    return send.data


def _sealed(world: World, client: Client, *messages: Message) -> bytes:
    """Return what a hostile client with a valid session sends."""
    link = client.session._home.link
    assert link is not None
    channel = link.channel
    return channel.seal(b"".join(map(encode, messages)))


def _mutate(payload: bytes, rng: random.Random) -> bytes:
    """Change one byte, but not into the type of Close, which would end the test."""
    position, value = rng.randrange(len(payload)), rng.randrange(256)
    value = 0 if value & ~COPY == encode(Close(0))[0] else value
    return payload[:position] + bytes([value]) + payload[position + 1 :]


def test_ten_thousand_forged_datagrams_of_a_session_do_nothing() -> None:
    world, server, client = _connected()
    rng = random.Random(2)
    true = _sealed(world, client, Publish("speed", 1, 1, 1, True, bytes(100)))
    forged = []
    for _ in range(10_000):
        position = rng.randrange(len(true))
        changed = bytes([true[position] ^ 1 << rng.randrange(8)])
        forged.append((true[:position] + changed + true[position + 1 :], EVIL))
    assert server.sessions.receive(forged, world.now) == []
    # those that name another session are told so, in fewer bytes and not too often
    answers = [one.data for one in server.sessions.flush(world.now)]
    assert len(answers) <= 200
    assert all(read_header(data).kind is Kind.UNKNOWN for data in answers)
    assert max(map(len, answers)) < len(true)
    assert sum(server.sessions.drops.values()) == 10_000
    assert server.sessions.drops["seal"] > 8_000
    (event,) = server.sessions.receive([(true, client.address)], world.now)
    assert isinstance(event, Publication)


def test_ten_thousand_replays_do_nothing() -> None:
    world, server, client = _connected()
    for _ in range(200):
        client.publish_next("speed")
        world.run(0.01)
    events, out = len(server.events), sum(server.bytes_out.values())
    seen = [data for data, target in world.seen if target == server.home.address]
    rng = random.Random(3)
    replayed = [(rng.choice(seen), rng.choice([EVIL, client.address])) for _ in range(10_000)]
    server.receive(replayed)
    server.flush()
    assert len(server.events) == events
    assert sum(server.bytes_out.values()) == out
    assert server.sessions.drops["replayed"] > 9_000
    assert server.sessions.address_of("car") == client.address
    # The client refuses the server's datagrams a second time as well.
    mine = [data for data, target in world.seen if target == client.address]
    client.session.receive(rng.choices(mine, k=10_000), world.now)
    assert client.session.poll(world.now) == []


def test_replayed_inits_open_no_session_at_this_or_another_server() -> None:
    world = World(4)
    server, other = world.add_server(), world.add_server("other")
    client = world.add_client("car", server.home)
    world.run(1.0)
    init = world.seen[0][0]
    for target, reason in ((server, "init_replayed"), (other, "init_mac1")):
        target.sessions.receive([(init, (f"9.{n}.1.1", 1)) for n in range(100)], world.now)
        assert target.sessions.drops == {reason: 100}
        assert target.sessions.flush(world.now) == []
    world.run(40.0)
    server.sessions.receive([(init, EVIL)], world.now)
    assert server.sessions.drops["init_replayed"] == 101
    assert client.session.is_connected


def test_an_init_replayed_after_a_restart_disturbs_nothing() -> None:
    """The restarted server does not remember the INIT, but nobody can confirm the session."""
    world = World(5)
    key = world.random.randbytes(32)
    server = world.add_server("edge", key)
    world.add_client("car", server.home)
    world.run(1.0)
    init = world.seen[0][0]
    again = world.add_server("edge", key)
    world.run(35.0, until=lambda: False)
    again = world.add_server("edge", key)
    world.now = START + 20
    assert again.sessions.receive([(init, EVIL)], world.now) == []
    (reply,) = again.sessions.flush(world.now)
    assert len(reply.data) <= len(init)
    assert again.sessions.clients == ()
    assert again.sessions.notify("car", []) is False
    assert len(again.sessions) == 1
    again.sessions.prune(world.now + 11)
    assert len(again.sessions) == 0


def test_an_unknown_key_gets_no_answer() -> None:
    world, server, _ = _connected()
    init = _init(world, server.home, name=None)
    assert server.sessions.receive([(init, EVIL)], world.now) == []
    assert server.sessions.drops == {"not_signed": 1}
    assert server.sessions.flush(world.now) == []


def test_every_byte_of_an_init_counts() -> None:
    world, server, _ = _connected(settings=WireSettings(prefix_burst=10_000, inits_per_s=10_000))
    init = _init(world, server.home)
    for position in range(6, len(init) - 16):
        forged = init[:position] + bytes([init[position] ^ 1]) + init[position + 1 :]
        server.sessions.receive([(forged, EVIL)], world.now)
    for length in range(len(init)):
        server.sessions.receive([(init[:length], EVIL)], world.now)
    assert len(server.sessions) == 1
    assert server.sessions.flush(world.now) == []
    server.sessions.receive([(init, EVIL)], world.now)
    assert len(server.sessions) == 2


def test_an_init_below_the_least_size_gets_no_answer() -> None:
    """A key that is enrolled and all MACs right: but the answer could be larger."""
    world, server, _ = _connected()
    key, home = world.random.randbytes(32), server.home
    world.enrolled[public_key(key)] = "small"
    for payload in (encode(Init(1)), b""):
        noise = InitiatorHandshake(
            static=key,
            ephemeral=world.random.randbytes(32),
            responder_static=home.server_key,
            prologue=PROLOGUE,
        )
        init = InitKeys(home.server_key).write_init(1, noise.write_first(payload))
        assert len(init) < INIT_BYTES
        server.sessions.receive([(init, EVIL)], world.now)
        assert len(server.sessions) == 1
    assert server.sessions.drops == {"init_too_short": 2}


def test_a_client_has_a_few_half_open_sessions_at_most() -> None:
    world = World(13)
    server = world.add_server()
    client = world.add_client("car", server.home)
    for _ in range(10):
        inits = [a for a in client.session.poll(world.now) if isinstance(a, SendDatagram)]
        server.sessions.receive([(init.data, client.address) for init in inits], world.now)
        world.now += 6.0
    assert len(server.sessions) == world.settings.half_open_limit
    assert server.sessions.clients == ()


def test_who_replays_old_inits_cannot_keep_their_client_out() -> None:
    """As many as an eavesdropper has gathered, between any two datagrams of the true client."""
    world = World(14, settings=WireSettings(seen_init_limit=1, prefix_burst=1e6, inits_per_s=1e6))
    server = world.add_server()
    client = world.add_client("car", server.home)
    old = []
    for _ in range(30):  # INITs that never reached the server
        client.poll()
        old += [data for data, target in world.seen if target == server.home.address]
        world.seen.clear()
        world._in_flight.clear()
        world.now += 10.0
    assert len(old) == 30

    def replay() -> None:
        batch = [(init, (f"66.6.{n}.6", n)) for n, init in enumerate(old)]
        server.sessions.receive(batch, world.now)
        server.sessions.flush(world.now)
        world.later(0.001, replay)

    replay()
    world.run(10.0, until=lambda: client.session.is_connected)
    assert client.session.is_connected
    assert server.sessions.drops["cookie_needed"] > 0
    assert len(server.sessions) <= world.settings.half_open_limit + 1


def test_an_old_init_cannot_be_sent_with_a_cookie_of_its_replayer() -> None:
    world = World(15, settings=WireSettings(inits_per_s=0))
    server = world.add_server()
    init, keys = _init(world, server.home), InitKeys(server.home.server_key)
    cookie = server.sessions.handshakes._cookies.cookie_for(EVIL, world.now)  # EVIL asked for it
    noise = init[10:-32]
    forged = keys.write_init(1, noise, cookie)
    assert server.sessions.receive([(forged, EVIL)], world.now) == []
    assert server.sessions.drops == {"init_seal": 1}
    assert len(server.sessions) == 0


def test_a_cookie_of_another_address_or_of_before_a_restart_is_exchanged() -> None:
    world = World(16, settings=WireSettings(inits_per_s=0))
    server = world.add_server()
    client = world.add_client("car", server.home)
    client.poll()
    world.run(0.005, until=lambda: bool(server.sessions.drops["cookie_needed"]))
    handshakes = server.sessions.handshakes
    handshakes._cookies = CookieJar(world.random.randbytes, 120.0)  # as after a restart
    world.run(1.0)
    assert client.session.is_connected
    assert server.sessions.drops["cookie_needed"] == 2


def test_above_the_rate_of_inits_a_cookie_is_needed_and_bound_to_the_address() -> None:
    world = World(6, settings=WireSettings(inits_per_s=0))
    server = world.add_server()
    key = world.random.randbytes(32)
    world.enrolled[public_key(key)] = "car"
    session = ClientSession(key, server.home, world.random.randbytes, world.settings)
    session.connect(world.now)
    (first,) = session.poll(world.now)
    assert isinstance(first, SendDatagram)
    server.sessions.receive([(first.data, ("1.1.1.1", 1))], world.now)
    (reply,) = server.sessions.flush(world.now)
    assert len(reply.data) < INIT_BYTES
    assert server.sessions.drops == {"cookie_needed": 1}
    assert len(server.sessions) == 0
    session.receive([reply.data, reply.data], world.now)
    assert session.drops == {"unexpected_kind": 1}
    (second,) = session.poll(world.now)
    assert isinstance(second, SendDatagram)
    stolen = [(second.data, (f"66.6.{n % 256}.{n // 256}", 1)) for n in range(10_000)]
    server.sessions.receive(stolen, world.now)
    assert len(server.sessions) == 0
    assert sum(len(send.data) for send in server.sessions.flush(world.now)) <= 10_000 * INIT_BYTES
    server.sessions.receive([(second.data, ("1.1.1.1", 1))], world.now)
    assert len(server.sessions) == 1


def test_cookies_last_two_rotations_at_most() -> None:
    jar = CookieJar(random.Random(1).randbytes, 120.0)
    cookie = jar.cookie_for(EVIL, START)
    assert jar.cookie_for(EVIL, START + 119) == cookie
    assert jar.cookie_for(EVIL, START + 120) != cookie
    assert jar.cookie_for(("66.6.6.6", 667), START + 120) != jar.cookie_for(EVIL, START + 120)


def test_an_init_flood_is_bounded_in_memory_answers_and_handshakes() -> None:
    settings = WireSettings(inits_per_s=100, prefix_limit=64, session_limit=50)
    world, server, client = _connected(7, settings)
    inits = [_init(world, server.home, f"bot {n}") for n in range(300)]
    batch = [(init, (f"66.{n}.0.1", n)) for n, init in enumerate(inits)] * 3
    server.sessions.receive(batch, world.now)
    answers = server.sessions.flush(world.now)
    drops = server.sessions.drops
    assert len(server.sessions) == 50
    assert drops["sessions_full"] + drops["cookie_needed"] + drops["init_replayed"] == 900 - 49
    assert drops["cookie_needed"] >= 700
    assert sum(len(answer.data) for answer in answers) <= sum(len(data) for data, _ in batch)
    assert len(server.sessions.handshakes._by_prefix) <= 64
    # The session that was there goes on, and the flood leaves nothing behind.
    client.publish_next("speed")
    world.run(12.0)
    assert client.acked == {"speed": 1}
    assert len(server.sessions) == 1


def test_in_a_flood_no_handshake_is_computed_before_the_address_is_proved() -> None:
    world, server, _ = _connected()
    server.sessions.handshakes.is_flooded = True
    server.sessions.receive([(_init(world, server.home), EVIL)], world.now)
    (answer,) = server.sessions.flush(world.now)
    assert isinstance(answer, SendDatagram)
    assert read_header(answer.data).kind is Kind.COOKIE
    world.add_client("new", server.home)
    world.run(1.0)
    assert server.sessions.clients == ("car", "new")


def test_a_spoofed_flood_does_not_lock_its_prefix_out() -> None:
    """Beyond the budget of a prefix a cookie is asked for: the true client brings it."""
    world, server, _ = _connected(8)
    inits = [_init(world, server.home, f"bot {n}") for n in range(100)]

    def flood() -> None:
        batch = [(init, (f"66.6.6.{n}", n)) for n, init in enumerate(inits)]
        server.sessions.receive(batch, world.now)
        server.sessions.flush(world.now)
        world.later(0.02, flood)

    flood()
    neighbour = world.add_client("neighbour", server.home)
    neighbour.addresses = [("66.6.6.200", 5000)]
    world.run(5.0, until=lambda: neighbour.session.is_connected)
    assert neighbour.session.is_connected
    assert server.sessions.drops["cookie_needed"] > 60
    assert server.sessions.drops["init_rate"] == 0


def test_who_has_proved_its_address_uses_up_its_own_budget() -> None:
    world, server, _ = _connected(8, WireSettings(inits_per_s=1, proved_inits_per_s=10_000))
    gate = server.sessions.handshakes

    def with_cookie(name: str, address: Address) -> bytes:
        world.enrolled[public_key(key := world.random.randbytes(32))] = name
        cookie = gate._cookies.cookie_for(address, world.now)
        noise = InitiatorHandshake(
            static=key,
            ephemeral=world.random.randbytes(32),
            responder_static=server.home.server_key,
            prologue=PROLOGUE + cookie,
        )
        first = noise.write_first(encode(Init(1)).ljust(200, b"\0"))
        return InitKeys(server.home.server_key).write_init(1, first, cookie)

    bots = [(with_cookie(f"bot {n}", ("66.6.6.9", n)), ("66.6.6.9", n)) for n in range(100)]
    server.sessions.receive(bots, world.now)
    assert server.sessions.drops == {"init_rate": 60}
    place = ("66.6.6.10", 1)
    server.sessions.receive([(with_cookie("neighbour", place), place)], world.now)
    assert len(server.sessions) == 42


def test_all_handshakes_together_have_a_budget() -> None:
    settings = WireSettings(inits_per_s=0, proved_inits_per_s=0)
    world = World(9, settings=settings)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(2.0)
    assert not client.session.is_connected
    assert server.sessions.drops["init_load"] > 0
    assert len(server.sessions) == 0


def test_cookies_have_a_budget() -> None:
    world = World(17, settings=WireSettings(inits_per_s=0, cookies_per_s=100))
    server = world.add_server()
    batch = [(_init(world, server.home), (f"66.{n}.6.6", n)) for n in range(250)]
    server.sessions.receive(batch, world.now)
    assert server.sessions.drops == {"cookie_needed": 100, "cookie_rate": 150}
    assert len(server.sessions.flush(world.now)) == 100


def test_prefixes_and_owners_of_addresses() -> None:
    assert prefix_of(("10.1.2.3", 1)) == "10.1.2"
    assert prefix_of(("2001:db8:1:2::3", 1)) == prefix_of(("2001:db8:1:ffff::", 9))
    assert prefix_of(("2001:db8:2::3", 1)) != prefix_of(("2001:db8:1::3", 1))
    assert prefix_of(("not:an address", 1)) == "not:an address"
    assert owner_of(("10.1.2.3", 1)) == owner_of(("10.1.2.3", 2)) != owner_of(("10.1.2.4", 1))
    assert owner_of(("2001:db8:1:2::3", 1)) == owner_of(("2001:db8:1:2:ff::", 1))
    assert owner_of(("2001:db8:1:2::3", 1)) != owner_of(("2001:db8:1:3::3", 1))


def test_a_token_bucket_fills_at_its_rate() -> None:
    buckets = TokenBuckets(10.0, 5.0, 2)
    assert [buckets.take("a", 0.0) for _ in range(6)] == [True] * 5 + [False]
    assert [buckets.take("a", 0.2) for _ in range(3)] == [True, True, False]
    assert not buckets.take("a", 0.1)  # time that runs backwards gives nothing
    for name in "bcd":
        buckets.take(name, 0.2)
    assert len(buckets) == 2


def test_seen_keys_forget_the_oldest() -> None:
    seen = SeenKeys(3)
    for key in (b"a", b"b", b"c", b"d"):
        seen.add(key)
    assert len(seen) == 3
    assert b"a" not in seen
    assert b"d" in seen


def test_a_moved_client_is_followed_only_after_its_address_answered() -> None:
    world, server, client = _connected()
    datagram = _sealed(world, client, Report(1.0, 1.0))
    server.sessions.receive([(datagram, EVIL)], world.now)
    answers = server.sessions.flush(world.now)
    to_evil = [answer for answer in answers if answer.address == EVIL]
    assert sum(len(answer.data) for answer in to_evil) <= len(datagram)
    assert len(to_evil) == 1
    server.sessions.notify("car", [Notify("t", "p", 1, 1, True, 0, bytes(900))])
    assert {send.address for send in server.sessions.flush(world.now)} == {client.address}
    # The answer from elsewhere, or with another token, proves nothing.
    client.session.receive([to_evil[0].data], world.now)
    wrong = _sealed(world, client, Heartbeat(b"guessing", answer=True))
    server.sessions.receive([(wrong, EVIL)], world.now)
    assert server.sessions.address_of("car") == client.address
    (answer, *_) = client.session.poll(world.now)
    assert isinstance(answer, SendDatagram)
    server.sessions.receive([(answer.data, client.address)], world.now)
    assert server.sessions.address_of("car") == client.address


def test_small_datagrams_from_a_new_address_earn_no_larger_answer() -> None:
    world, server, client = _connected()
    link = client.session._home.link
    assert link is not None
    channel = link.channel
    received = 0
    for _ in range(50):
        datagram = channel.seal(b"")
        received += len(datagram)
        server.sessions.receive([(datagram, EVIL)], world.now)
        world.now += 0.2
        sent = sum(
            len(send.data) for send in server.sessions.flush(world.now) if send.address == EVIL
        )
        received -= sent
        assert received >= 0


def test_a_hostile_client_with_a_session_breaks_nothing() -> None:
    """Sealed by a valid session: garbage, wrong directions, extreme numbers."""
    world, server, client = _connected()
    link = client.session._home.link
    assert link is not None
    channel = link.channel
    rng = random.Random(9)
    top = 2**64 - 1
    hostile: list[Message] = [
        Init(1),
        Acknowledge(1, 1.0, 1),
        Confirm(1, True),
        Notify("t", "p", 1, 1, True, 0, b""),
        Redirect("h", 1, bytes(32)),
        Received(top, top),
        Received(0, top),
        Heartbeat(bytes(1_000)),
        Heartbeat(b"question"),
        Heartbeat(b"nonsense", answer=True),
        Echo(bytes(1_163)),
        Echo(b"", answer=True),
        Subscribe(0, "x"),
        Publish("t", top, top, top, True, b""),
        Publish("t", top, top, 0, True, b""),
        Publish("t", 0, 0, 0, True, b""),
        Publish("t", 0, 0, 0, False, b""),
        Report(1e308, -1e308),
    ]
    batch = []
    for _ in range(20_000):
        kind = rng.randrange(3)
        if kind == 0:
            payload = rng.randbytes(rng.randrange(60))
        else:
            frames = [encode(rng.choice(hostile)) for _ in range(rng.randrange(1, 4))]
            payload = b"".join(frames)[: 1_200 - SEALED_OVERHEAD]
            if kind == 1 and payload:
                payload = _mutate(payload, rng)
        batch.append((channel.seal(payload), client.address))
    for start in range(0, len(batch), 64):
        server.sessions.receive(batch[start : start + 64], world.now)
        for send in server.sessions.flush(world.now):
            assert len(send.data) <= 1_200
        world.now += 2.0  # a client that sends faster is not heard
    assert server.sessions.drops["malformed"] > 1_000
    server.sessions.receive([(channel.seal(encode(Close(0))), client.address)], world.now)
    assert len(server.sessions) == 0


def test_a_hostile_server_cannot_break_its_client() -> None:
    world, server, client = _connected()
    session = server.sessions._table.by_client["car"]
    channel: Channel = session.channel
    rng = random.Random(10)
    top = 2**64 - 1
    hostile: list[Message] = [
        Init(1),
        Acknowledge(1, 1.0, 1),
        Subscribe(1, "t"),
        Notify("t", "p", top, top, True, 0, b""),
        Redirect("", 7_000, bytes(32)),
        Redirect("host", 70_000, bytes(32)),
        Redirect("host", 7_000, b"short"),
        Redirect("host", 7_000, bytes(32)),  # a key of low order
        Heartbeat(bytes(1_100)),
        Heartbeat(b"question"),
        Confirm(2**32 - 1, True),
        Echo(b"never sent", answer=True),
        Publish("t", 1, 1, 1, True, b""),
    ]
    for _ in range(5_000):
        payload = _mutate(b"".join(encode(rng.choice(hostile)) for _ in range(2)), rng)
        client.session.receive([channel.seal(payload), rng.randbytes(50)], world.now)
        client.session.poll(world.now)
    assert client.session.is_connected
    assert client.session.drops["malformed"] > 100
    assert client.session.drops["invalid_field"] > 10
    assert client.session.drops["unusable_home"] > 100


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 29, 30, 31, 255, 256, 257, 1_200, 1_201, 9_000])
def test_garbage_of_any_size_is_counted_and_forgotten(size: int) -> None:
    world, server, client = _connected()
    rng = random.Random(size)
    firsts = [*range(256)]
    batch = [(bytes([first, 0])[:size] + rng.randbytes(max(0, size - 2)), EVIL) for first in firsts]
    assert server.sessions.receive(batch, world.now) == []
    client.session.receive([data for data, _ in batch], world.now)
    answers = [read_header(one.data).kind for one in server.sessions.flush(world.now)]
    # one of them looks like a datagram of a session that ended
    assert answers == [Kind.UNKNOWN] * (SEALED_OVERHEAD <= size <= 1_200)
    assert sum(server.sessions.drops.values()) == sum(client.session.drops.values()) == 256


def test_the_reserved_byte_must_be_zero() -> None:
    world, server, client = _connected()
    data, _ = world.seen[-1]
    reserved = data[:1] + b"\x03" + data[2:]
    assert server.sessions.receive([(reserved, client.address)], world.now) == []
    client.session.receive([reserved], world.now)
    assert server.sessions.drops["unknown_kind"] == client.session.drops["unknown_kind"] == 1


def test_attacks_on_a_handshake_only_delay_it() -> None:
    world = World(12, Network(attacks=20.0))
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(30.0)
    assert client.session.is_connected
    assert server.sessions.clients == ("car",)
    assert world.attacks > 50

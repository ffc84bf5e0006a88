"""Clients that open session after session: each has a budget, which only itself can use up."""

from __future__ import annotations

import pytest

from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import encode
from nearcast.wire.framing import Kind, read_header
from nearcast.wire.messages import Close, CloseReason, Init
from nearcast.wire.noise import public_key
from nearcast.wire.settings import Address
from wire.world import Server, World

_TRIES = 100
_AT_ONCE = 30
"""Three seconds' worth by default."""


def _open_and_leave(
    world: World, server: Server, key: bytes, address: Address, *, uses: bool, cookie: bool
) -> bool:
    """Open a session, use it once or not at all; tell whether the server answered."""
    handshake = ClientHandshake(key, server.home, world.random.randbytes, world.settings, 0.0)
    server.sessions.handshakes.is_flooded = cookie
    for _ in range(2):
        init = handshake.write_init(Init(1), world.now).data
        server.sessions.receive([(init, address)], world.now)
        answers = server.sessions.flush(world.now)
        if not answers or read_header(answers[0].data).kind is not Kind.COOKIE:
            break
        handshake.read_cookie(answers[0].data, world.now)
    if not answers:
        return False
    channel, _ = handshake.read_acknowledge(answers[0].data)
    if uses:
        farewell = channel.seal(encode(Close(CloseReason.DONE)))
        server.sessions.receive([(farewell, address)], world.now)
    return True


def _opened(world: World, server: Server, key: bytes, *, uses: bool, cookie: bool) -> int:
    return sum(
        _open_and_leave(world, server, key, (f"66.{n}.0.1", n + 1), uses=uses, cookie=cookie)
        for n in range(_TRIES)
    )


@pytest.mark.parametrize(
    ("uses", "cookie"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_a_restless_client_opens_so_many_sessions_and_others_are_let_in(
    uses: bool, cookie: bool
) -> None:
    world = World(1)
    server = world.add_server()
    key = world.random.randbytes(32)
    world.enrolled[public_key(key)] = "restless"
    # a few more that were neither proved nor used: beyond them each INIT needs a cookie
    most = _AT_ONCE + (0 if uses or cookie else world.settings.half_open_limit)
    assert _opened(world, server, key, uses=uses, cookie=cookie) == most
    assert server.sessions.drops["session_rate"] == _TRIES - most
    neighbour = world.add_client("neighbour", server.home)
    world.run(1.0)
    assert neighbour.session.is_connected
    # after a second its next ones are answered
    assert _opened(world, server, key, uses=uses, cookie=cookie) == 10


def test_inits_that_were_overheard_and_sent_again_do_not_count() -> None:
    world = World(2)
    server = world.add_server()
    key = world.random.randbytes(32)
    world.enrolled[public_key(key)] = "car"
    handshake = ClientHandshake(key, server.home, world.random.randbytes, world.settings, 0.0)
    init = handshake.write_init(Init(1), world.now).data
    for n in range(_TRIES):
        server.sessions.handshakes._seen._keys.clear()  # as if many had come in between
        server.sessions.receive([(init, (f"66.{n}.0.1", 1))], world.now)
    server.sessions.flush(world.now)
    assert _opened(world, server, key, uses=True, cookie=True) == _AT_ONCE


def test_who_got_a_cookie_late_does_not_wait_long_when_its_next_init_is_lost() -> None:
    """In a flood most INITs are lost: few tries are left for the second one."""
    world = World(1)
    server = world.add_server()
    server.sessions.handshakes.is_flooded = True
    key = world.random.randbytes(32)
    handshake = ClientHandshake(key, server.home, world.random.randbytes, world.settings, 0.0)
    for _ in range(6):
        init = handshake.write_init(Init(1), world.now).data
    assert handshake.due > world.now + 4.0
    server.sessions.receive([(init, ("66.0.0.1", 1))], world.now)
    handshake.read_cookie(server.sessions.flush(world.now)[0].data, world.now)
    assert handshake.due == world.now
    handshake.write_init(Init(1), world.now)
    assert handshake.due < world.now + 2 * world.settings.first_retry_s

"""Clocks that are wrong, jump or stood still: nobody is kept out, nothing is lost."""

from __future__ import annotations

import pytest

from wire.world import START, Network, World

YEAR_S = 365 * 86_400.0


@pytest.mark.parametrize("of_client", [True, False], ids=["client", "server"])
@pytest.mark.parametrize("skew_s", [-START + 5.0, -YEAR_S, -31.0, 31.0, YEAR_S, 50 * YEAR_S])
def test_clocks_need_not_agree(skew_s: float, *, of_client: bool) -> None:
    """Also those of a machine that boots before it knows the time, at the beginning of 1970."""
    world = World(1, Network(loss=0.05))
    server = world.add_server()
    server.skew_s = 0.0 if of_client else skew_s
    client = world.add_client("car", server.home, skew_s if of_client else 0.0)
    for _ in range(10):
        client.publish_next("speed")
        world.run(1.0)
    world.run(60.0)
    assert client.session.is_connected
    assert client.acked == {"speed": 10}
    assert server.sessions.clients == ("car",)


def test_a_client_that_slept_comes_back() -> None:
    """Its clock counts on while it sleeps (`links.steady_clock`)."""
    world = World(2)
    server = world.add_server()
    client = world.add_client("car", server.home)
    client.publish_next("speed")
    world.run(1.0)
    world.clients.clear()
    world.run(3_600.0)
    assert not server.sessions.clients
    world.clients.append(client)
    client.publish_next("speed")
    world.run(10.0)
    assert server.sessions.clients == ("car",)
    assert client.acked == {"speed": 2}


def test_a_client_whose_clock_omits_its_sleep_comes_back_as_well() -> None:
    """As on systems without a clock that counts on."""
    world = World(3)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    world.clients.clear()
    world.run(3_600.0)
    world.clients.append(client)
    client.skew_s = -3_600.0
    client.publish_next("speed")
    world.run(10.0)
    assert client.acked == {"speed": 1}


def test_a_jump_of_a_clock_costs_a_new_session_at_most() -> None:
    world = World(4)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    for jump_s in (40.0, YEAR_S):
        client.skew_s += jump_s
        client.publish_next("speed")
        world.run(10.0)
        server.skew_s += jump_s
        client.publish_next("speed")
        world.run(10.0)
    assert client.acked == {"speed": 4}
    assert server.sessions.clients == ("car",)

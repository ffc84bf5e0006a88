"""A client that publishes a topic straight to another server than its home."""

from __future__ import annotations

from nearcast.wire.framing import Kind, read_header
from nearcast.wire.messages import CloseReason, Route
from wire.world import Client, Server, World


def _route(server: Server, topic: str = "speed") -> Route:
    host, port = server.home.address
    return Route(topic, host, port, server.home.server_key)


def _visiting() -> tuple[World, Server, Server, Client]:
    world = World(1)
    home, other = world.add_server("home"), world.add_server("other")
    client = world.add_client("car", home.home)
    world.run(1.0)
    client.publish_next("speed")
    home.sessions.tell("car", _route(other))
    world.run(1.0)
    assert other.sessions.is_visitor("car")
    assert not home.sessions.is_visitor("car")
    return world, home, other, client


def _sent_to(world: World, server: Server, since: int) -> list[Kind]:
    address = server.home.address
    return [read_header(data).kind for data, to in world.seen[since:] if to == address]


def test_a_routed_topic_goes_to_its_server_and_comes_back_when_that_is_withdrawn() -> None:
    world, _, other, client = _visiting()
    before = len(other.events)
    for _ in range(5):
        client.publish_next("speed")
        client.publish_next("hazard")
    world.run(1.0)
    topics = [getattr(one, "topic", None) for one in other.events[before:]]
    assert topics.count("speed") == 5
    assert "hazard" not in topics
    assert client.acked == {"speed": 6, "hazard": 5}
    other.sessions.tell("car", Route("speed"))
    world.run(1.0)
    assert "car" not in other.sessions  # it had no other topic there
    client.publish_next("speed")
    world.run(1.0)
    assert client.acked["speed"] == 7
    assert [number for number, _ in world.broker.taken["car", "speed"]] == [*range(1, 8)]


def test_a_visit_ends_when_its_server_becomes_the_home() -> None:
    world, home, other, client = _visiting()
    home.sessions.redirect("car", other.home)
    world.run(2.0)
    assert client.session.home == other.home
    assert not other.sessions.is_visitor("car")
    client.publish_next("speed")
    world.run(1.0)
    assert client.acked == {"speed": 2}


def test_a_revoked_client_visits_nobody_any_more() -> None:
    world, home, other, client = _visiting()
    home.sessions.close("car", CloseReason.REVOKED, world.now)
    world.run(1.0)
    assert "car" not in other.sessions
    client.publish_next("speed")
    since = len(world.seen)
    world.run(100.0)
    assert _sent_to(world, home, since) == _sent_to(world, other, since) == []
    assert client.session.unacknowledged == 1


def test_routes_that_are_of_no_use_are_counted_and_bounded() -> None:
    world, home, _, client = _visiting()
    for number in range(40):
        home.sessions.tell(
            "car", Route(f"t{number}", f"10.0.0.{number}", 7000, bytes([number]) * 32)
        )
    home.sessions.tell("car", Route("u", "host", 0, b"k" * 32))
    home.sessions.tell("car", Route("u", "host", 7000, b"short"))
    world.run(1.0)
    drops = client.session.drops
    assert drops["unusable_server"] == 2
    assert drops["too_many_visits"] == 40 - 15
    client.publish_next("t3")
    world.run(100.0)
    assert client.acked["t3"] == 1  # nobody is there: it goes through the home

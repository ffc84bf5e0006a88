"""Subscriptions whose confirmation takes its time: asked again without harm."""

from __future__ import annotations

from functools import partial

from nearcast.wire.actions import Confirmed, Deliver, ServerEvent
from nearcast.wire.messages import Confirm, Subscribe
from nearcast.wire.settings import WireSettings
from nearcast.wire.subscriptions import Subscriptions
from wire.world import World


def _never(_topic: str) -> bool:
    return False


def test_a_request_keeps_its_number_and_only_its_first_answer_counts() -> None:
    wishes = Subscriptions(WireSettings())
    wishes.want("a", True)
    asked = [request for now in (0.0, 0.1, 0.25, 0.75) for request in wishes.due(now, _never)]
    assert asked == [Subscribe(1, "a")] * 3
    assert wishes.confirm(Confirm(1, True)) == Confirmed("a", True, True, "")
    assert wishes.confirm(Confirm(1, True)) is None
    assert wishes.next_due() == float("inf")
    wishes.restart()
    assert [request.topic for request in wishes.due(9.0, _never)] == ["a"]


def test_an_answer_to_an_earlier_request_of_the_topic_does_not_count() -> None:
    wishes = Subscriptions(WireSettings())
    for subscribed in (True, False, True):
        wishes.want("a", subscribed)
    assert [*wishes.due(0.0, _never)] == [Subscribe(3, "a")]
    assert wishes.confirm(Confirm(1, True)) is None
    assert wishes.confirm(Confirm(2, True)) is None
    assert wishes.confirm(Confirm(3, False, "no")) == Confirmed("a", True, False, "no")
    wishes.restart()
    assert [*wishes.due(1.0, _never)] == []


def test_a_server_that_confirms_after_seconds_keeps_its_client() -> None:
    world = World(1)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(5.0, lambda: client.session.is_connected)
    asked: list[Subscribe] = []

    def handle(events: list[ServerEvent]) -> None:
        for event in events:
            if isinstance(event, Deliver) and isinstance(event.message, Subscribe):
                asked.append(event.message)
                request = event.message.request
                world.later(8.0, partial(server.sessions.confirm, "car", request, True))

    server.handle = handle  # type: ignore[method-assign]
    client.session.subscribe("a")
    world.run(30.0)
    assert 2 < len(asked) < 9
    assert len(set(asked)) == 1
    assert [type(event).__name__ for event in client.events] == ["Connected", "Confirmed"]

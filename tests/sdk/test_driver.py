"""The driver without a loop: a simulator's clock and network are enough."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from nearcast.sdk import ClientDriver, Credentials, Notification
from nearcast.sdk.driver import Event
from nearcast.sdk.outcome import Outcome
from nearcast.wire.actions import Confirmed, Connected
from nearcast.wire.messages import CloseReason, Notify
from wire.world import Network, World

BAD = Network(loss=0.2, duplication=0.1, least_delay_s=0.001, most_delay_s=0.05)


def _drive(world: World, driver: ClientDriver, seconds: float, until: Callable[[], bool]) -> None:
    """Let the world run with the driver in the place of its client."""
    client = world.clients[0]
    client.session = driver.session

    def poll() -> None:
        for send in driver.poll(world.now):
            world.transmit(send.data, client.address, send.address)

    client.poll = poll  # type: ignore[method-assign]
    world.run(seconds, until)


def _driver(world: World) -> ClientDriver:
    server = world.add_server()
    world.add_client("car", server.home)
    credentials = Credentials("car", random.Random(5).randbytes(32), server.home, 1.0, 2.0)
    world.enrolled[credentials.public_key] = "car"
    driver = ClientDriver(credentials, world.random.randbytes)
    driver.start(world.now)
    return driver


@pytest.mark.parametrize("seed", range(5))
def test_a_simulated_client_keeps_its_promises_over_a_bad_network(seed: int) -> None:
    world = World(seed, BAD)
    driver = _driver(world)
    heard: list[Notification] = []
    driver.on_notification = heard.append
    receipts = [driver.publish("a", b"%d" % number, world.now) for number in range(300)]
    subscription = driver.subscribe("b")
    _drive(world, driver, 120.0, lambda: all(receipt.is_done for receipt in receipts))
    assert [receipt.result() for receipt in receipts] == [None] * 300
    assert world.broker.taken["car", "a"] == [(n + 1, b"%d" % n) for n in range(300)]
    _drive(world, driver, 60.0, lambda: subscription.is_done)
    assert subscription.result() is None
    server = next(iter(world.servers.values()))
    server.sessions.notify("car", [Notify("b", "bus", 1, n, True, 0, b"x") for n in range(1, 50)])
    _drive(world, driver, 60.0, lambda: len(heard) == 49)
    assert sorted(item.sequence for item in heard) == list(range(1, 50))
    assert {item.total_ms for item in heard} == {None}


def test_the_last_wish_for_a_topic_counts() -> None:
    world = World(1)
    driver = _driver(world)
    first = driver.subscribe("a")
    assert driver.subscribe("a") is first
    second = driver.unsubscribe("a")
    assert "opposite" in str(first.error)
    _drive(world, driver, 10.0, lambda: second.is_done)
    assert second.result() is None


def test_a_refusal_that_nobody_waits_for_is_an_event() -> None:
    world = World(1)
    driver = _driver(world)
    events: list[Event] = []
    driver.on_event = events.append
    refused = driver.subscribe("forbidden")
    _drive(world, driver, 10.0, lambda: refused.is_done)
    assert "forbidden: refused: no reason given" in str(refused.error)
    granted = driver.subscribe("a")
    _drive(world, driver, 10.0, lambda: granted.is_done)
    server = next(iter(world.servers.values()))
    server.sessions.close("car", CloseReason.STOPPED, world.now)
    _drive(world, driver, 10.0, lambda: isinstance(events[-1], Confirmed))
    assert [type(event) for event in events].count(Connected) == 2
    assert events[-1] == Confirmed("a", True, True, "")


def test_lost_echoes_are_forgotten() -> None:
    world = World(1)
    driver = _driver(world)
    _drive(world, driver, 10.0, lambda: driver.connected.is_done)
    echoes = [driver.echo(b"", world.now) for _ in range(100)]
    _drive(world, driver, 10.0, lambda: all(echo.is_done for echo in echoes[-64:]))
    assert echoes[-1].result() == pytest.approx(0.004, abs=0.001)
    assert not echoes[0].is_done


def test_stages_that_were_not_measured_have_no_delay() -> None:
    stamps_us = (1_000, 3_000, 0, 9_000, 2_000)
    found = Notification("a", "bus", 1, 1, True, 0, b"", *stamps_us, arrived_us=13_500)
    assert (found.publish_leg_ms, found.processing_ms, found.between_ms) == (2.0, 2.0, 4.0)
    assert (found.notify_leg_ms, found.total_ms, found.is_copy) == (4.5, 12.5, False)
    bare = Notification("a", "bus", 1, 1, True, 0, b"", arrived_us=5_000_000)
    assert (bare.publish_leg_ms, bare.processing_ms, bare.between_ms) == (None, None, None)
    assert (bare.notify_leg_ms, bare.total_ms) == (None, None)


def test_the_first_outcome_counts_and_calls_back_once() -> None:
    outcome: Outcome[int] = Outcome()
    calls: list[int] = []
    outcome.when_done(lambda: calls.append(1))
    with pytest.raises(RuntimeError, match="not known yet"):
        outcome.result()
    outcome.resolve(7)
    outcome.fail(ValueError("too late"))
    outcome.when_done(lambda: calls.append(2))
    assert (outcome.result(), outcome.error, calls) == (7, None, [1, 2])


def test_a_notification_in_order_takes_few_calls() -> None:
    world = World(1)
    driver = _driver(world)
    heard: list[Notification] = []
    driver.on_notification = heard.append
    _drive(world, driver, 1.0, lambda: False)
    server = next(iter(world.servers.values()))
    datagrams: list[bytes] = []
    for number in range(1, 21):
        server.sessions.notify("car", [Notify("b", "bus", 1, number, True, 0, b"x" * 220)])
        datagrams += [send.data for send in server.sessions.flush(world.now)]
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    driver.receive(datagrams[:1], world.now)
    driver.poll(world.now)
    sys.setprofile(count)
    for data in datagrams[1:]:
        driver.receive([data], world.now)
        driver.poll(world.now)
        driver.next_wakeup()
    sys.setprofile(None)
    assert [item.sequence for item in heard] == list(range(1, 21))
    assert calls / 19 < 20


@pytest.mark.parametrize("is_waiting", [True, False])
def test_there_is_no_room_any_more_after_the_end(is_waiting: bool) -> None:
    driver = _driver(World(1))
    if is_waiting:
        assert not driver.room.is_done
    driver.end("the client was closed")
    assert "the client was closed" in str(driver.room.error)

"""The asyncio client against a real server on loopback."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import ConfigError, WireError
from nearcast.sdk import (
    Client,
    NotAcknowledgedError,
    NotConnectedError,
    Notification,
    RequestRefusedError,
    new_private_key,
    save_credentials,
)
from nearcast.sdk.driver import Event, Redirected
from nearcast.sdk.shared_line import _SHARES
from nearcast.wire.actions import Connected, Disconnected
from nearcast.wire.messages import CloseReason, Report
from sdk.edge import SETTINGS, Edge


def run(work: Coroutine[Any, Any, None]) -> None:
    async def with_limit() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(with_limit())


def test_publications_reach_subscribers_with_the_delay_of_each_stage(edge: Edge) -> None:
    async def work() -> None:
        async with (
            Client.connect(edge.enrol("car")) as car,
            Client.connect(edge.enrol("sign")) as sign,
        ):
            await sign.subscribe("road/a")
            receipt = await car.publish_and_wait("road/a", {"speed_kmh": 12}, position=(1.0, 2.0))
            assert (receipt.sequence, receipt.error) == (1, None)
            await (await car.publish("road/a", "slow"))
            await (await car.publish("road/a", b"\xff\x00", durable=False))
            heard = [await sign.next_notification() for _ in range(3)]
        assert all(isinstance(item, Notification) for item in heard)
        first, second, third = (item for item in heard if item is not None)
        assert (first.publisher, first.topic, first.json()) == ("car", "road/a", {"speed_kmh": 12})
        assert (second.text, second.sequence, second.durable) == ("slow", 2, True)
        assert (third.payload, third.sequence, third.durable) == (b"\xff\x00", 1, False)
        assert (first.processing_ms, first.between_ms, first.is_copy) == (1.5, 2.5, False)
        assert first.publish_leg_ms is not None
        assert first.publish_leg_ms >= 0
        assert first.notify_leg_ms is not None
        parts = first.publish_leg_ms + 1.5 + 2.5 + first.notify_leg_ms
        assert first.total_ms == pytest.approx(parts)
        assert edge.site.positions == [(1.0, 2.0), None, None]

    run(work())


def test_nothing_is_lost_doubled_or_reordered_when_a_third_of_the_datagrams_is(edge: Edge) -> None:
    chance = random.Random(3)

    async def work() -> None:
        async with (
            Client.connect(edge.enrol("car")) as car,
            Client.connect(edge.enrol("sign")) as sign,
        ):
            await sign.subscribe("road/a")
            edge.loses = lambda: chance.random() < 0.33
            receipts = [await car.publish("road/a", str(number)) for number in range(200)]
            await asyncio.gather(*receipts)
            heard = [await sign.next_notification() for _ in range(200)]
            edge.loses = lambda: False
            assert sorted(int(item.text) for item in heard if item) == list(range(200))

    run(work())
    assert edge.site.taken["car", "road/a"] == [b"%d" % number for number in range(200)]


def test_publish_waits_while_too_many_are_unacknowledged(edge: Edge) -> None:
    edge.acknowledges = False

    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            for number in range(4_096):
                car.publish_now(f"road/{number % 100}", b"x")
            with pytest.raises(WireError, match="publish later"):
                car.publish_now("road/0", b"too many")
            waiting = asyncio.create_task(car.publish("road/0", b"the last"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.01)
            edge.acknowledges = True
            await (await waiting)

    run(work())
    assert sum(map(len, edge.site.taken.values())) == 4_097


def test_a_refused_subscription_raises_the_servers_reason(edge: Edge) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            with pytest.raises(RequestRefusedError, match="no such topic") as caught:
                await car.subscribe("forbidden")
            assert caught.value.reason == "no such topic"
            with pytest.raises(WireError, match="topic"):
                await car.subscribe("")

    run(work())


def test_after_unsubscribing_nothing_more_is_heard(edge: Edge) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            await asyncio.gather(car.subscribe("a"), car.subscribe("a"), car.subscribe("b"))
            await car.unsubscribe("a")
            await car.publish_and_wait("a", "unheard")
            await car.publish_and_wait("b", "heard")
            heard = await car.next_notification()
            assert heard is not None
            assert heard.text == "heard"

    run(work())


def test_a_callback_takes_the_place_of_the_queue_and_may_fail(edge: Edge) -> None:
    heard: list[str] = []

    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            done = asyncio.Event()

            def callback(notification: Notification) -> None:
                heard.append(notification.text)
                if len(heard) == 1:
                    raise RuntimeError("the application's own bug")
                done.set()

            car.on_notification(callback)
            await car.subscribe("a")
            await car.publish_and_wait("a", "one")
            await car.publish_and_wait("a", "two")
            await done.wait()
            assert await car.next_notification(timeout_s=0) is None

    run(work())
    assert heard == ["one", "two"]


def test_a_full_queue_drops_the_oldest_and_counts_them(edge: Edge) -> None:
    async def work() -> None:
        client = Client(edge.enrol("car"), notification_limit=2)
        async with client as car:
            await car.subscribe("a")
            for number in range(5):
                await car.publish_and_wait("a", str(number))
            await car.echo()  # all notifications came before its answer
            left = [item.text async for item in _first(car, 2)]
            assert (left, car.dropped_notifications) == (["3", "4"], 3)

    async def _first(car: Client, count: int) -> Any:
        async for item in car.notifications():
            yield item
            count -= 1
            if not count:
                return

    run(work())


def test_a_client_follows_a_redirection_with_all_that_is_open(edge: Edge) -> None:
    events: list[Event] = []

    async def work() -> None:
        with Edge(edge.site) as other:
            edge.acknowledges = False
            async with Client.connect(edge.enrol("car")) as car:
                arrived = asyncio.Event()

                def note(event: Event) -> None:
                    events.append(event)
                    if isinstance(event, Connected) and event.home == other.home:
                        arrived.set()

                car.on_event(note)
                await car.subscribe("a")
                receipts = [await car.publish("a", str(number)) for number in range(10)]
                edge.redirect("car", other.home)
                await asyncio.gather(*receipts)
                await arrived.wait()
                await car.subscribe("a")
                await car.publish_and_wait("a", "at the new home")
                heard = []
                while "at the new home" not in heard:
                    item = await car.next_notification()
                    assert item is not None
                    heard.append(item.text)
                assert car.home == car.credentials.home == other.home
            assert events[0] == Redirected(edge.home, other.home)

    run(work())
    assert edge.site.taken["car", "a"] == [b"%d" % n for n in range(10)] + [b"at the new home"]


def test_a_client_comes_back_after_its_server_restarted() -> None:
    async def work() -> None:
        with Edge(settings=replace(SETTINGS, report_interval_s=0.1)) as edge:
            async with Client.connect(edge.enrol("car")) as car:
                await car.subscribe("a")
                await car.publish_and_wait("a", "before")
                edge.restart()
                await car.publish_and_wait("a", "after")
                await car.subscribe("a")  # confirmed in the new session
                await car.publish_and_wait("a", "at last")
                heard: list[str] = []
                while "at last" not in heard:
                    item = await car.next_notification()
                    assert item is not None
                    heard.append(item.text)
                assert heard[0] == "before"
            assert edge.site.taken["car", "a"] == [b"before", b"after", b"at last"]

    run(work())


def test_a_revoked_client_is_told_and_what_was_open_fails(edge: Edge) -> None:
    events: list[Event] = []

    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            car.on_event(events.append)
            edge.acknowledges = False
            receipt = await car.publish("a", "x")
            await car.echo()
            edge.revoke("car")
            with pytest.raises(NotAcknowledgedError, match="revoked"):
                await receipt
            with pytest.raises(NotConnectedError, match="revoked"):
                await car.subscribe("a")
            with pytest.raises(NotConnectedError, match="revoked"):
                await car.publish("a", "y")
        assert events == [Disconnected(edge.home, CloseReason.REVOKED)]

    run(work())


def test_closing_with_open_publications_says_so(edge: Edge) -> None:
    async def work() -> None:
        edge.acknowledges = False
        car = Client.connect(edge.enrol("car"))
        car.start()
        await car.wait_connected()
        receipt = await car.publish("a", "x")
        with pytest.raises(NotAcknowledgedError, match="1 publications") as caught:
            await car.close(timeout_s=0.01)
        assert caught.value.unacknowledged == 1
        assert isinstance(receipt.error, NotAcknowledgedError)
        with pytest.raises(NotConnectedError, match="closed"):
            await car.publish("a", "late")
        assert [item async for item in car.notifications()] == []
        await car.close()

    run(work())


def test_publications_that_are_not_durable_are_sent_before_the_goodbye(edge: Edge) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            await car.publish("a", "last words", durable=False)
            ears = Client.connect(edge.enrol("ears"))
        async with ears:
            await ears.echo()  # the server has worked off what came before

    run(work())
    assert edge.site.once == [("a", b"last words")]


def test_without_a_session_a_publication_that_is_not_durable_fails(edge: Edge) -> None:
    async def work() -> None:
        car = Client.connect(edge.enrol("car"))
        car.start()
        receipt = await car.publish("a", "x", durable=False)
        with pytest.raises(NotConnectedError, match="no session"):
            await receipt
        with pytest.raises(NotConnectedError, match="session"):
            await car.echo()
        await car.close()

    run(work())


def test_reports_begin_with_the_place_in_the_credentials(edge: Edge) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car", x_km=1.5, y_km=2.5)) as car:
            await car.echo()
            edge.heard.clear()
            car.report(3.0, 4.0, 90.0, 13.0, at_once=True)
            await asyncio.to_thread(edge.heard.wait)
            with pytest.raises(WireError):
                car.report(float("nan"), 0.0)

    run(work())
    assert edge.site.reports[0] == Report(1.5, 2.5)
    assert edge.site.reports[-1] == Report(3.0, 4.0, 90.0, 13.0)


def test_a_server_that_does_not_answer_is_named(edge: Edge) -> None:
    unknown = replace(edge.enrol("car"), private_key=new_private_key())

    async def work() -> None:
        with pytest.raises(NotConnectedError, match=r"'car'.*127\.0\.0\.1.*enrolled"):
            async with Client.connect(unknown, timeout_s=0.05):
                pass

    run(work())


def test_a_host_may_be_a_name(edge: Edge) -> None:
    credentials = edge.enrol("car")
    home = replace(edge.home, address=("localhost", edge.home.address[1]))

    async def work() -> None:
        async with Client.connect(replace(credentials, home=home)) as car:
            await car.publish_and_wait("a", "x")

    run(work())


def test_a_name_that_nobody_knows_is_told(edge: Edge) -> None:
    home = replace(edge.home, address=("no such host.invalid", 7000))

    async def work() -> None:
        with pytest.raises(NotConnectedError, match="cannot be looked up"):
            async with Client.connect(replace(edge.enrol("car"), home=home), timeout_s=1):
                pass

    run(work())


def test_emulated_delays_hold_datagrams_both_ways(edge: Edge) -> None:
    server = f"127.0.0.1:{edge.home.address[1]}"

    async def work() -> None:
        async with Client.connect(edge.enrol("near")) as near:
            far = Client.connect(edge.enrol("far", delays_ms={server: 20.0}))
            async with far:
                await far.subscribe("a")
                await far.publish("a", "x", durable=False)
                heard = await far.next_notification()
                assert heard is not None
                assert heard.publish_leg_ms is not None
                assert heard.publish_leg_ms >= 20
                assert heard.total_ms is not None
                assert heard.total_ms >= 40
                assert await far.echo(b"1") >= 0.04
                assert len(_SHARES) == 1
            await near.echo(b"2")
        assert not _SHARES

    run(work())


def test_many_clients_share_one_loop_without_tasks(edge: Edge) -> None:
    async def work() -> None:
        tasks = len(asyncio.all_tasks())
        clients = [Client.connect(edge.enrol(f"car {number}")) for number in range(100)]
        for client in clients:
            client.start()
        assert len(asyncio.all_tasks()) == tasks
        for client in clients:
            await client.wait_connected()
        await asyncio.gather(*(client.subscribe("all") for client in clients))
        await clients[0].publish_and_wait("all", "hello")
        for client in clients:
            heard = await client.next_notification()
            assert heard is not None
            assert heard.text == "hello"
        for client in clients:
            await client.close()

    run(work())


def test_credentials_may_be_a_file(edge: Edge, tmp_path: Path) -> None:
    file = tmp_path / "car.json"
    save_credentials(edge.enrol("car"), file)

    async def work() -> None:
        async with Client.connect(file) as car:
            assert (car.name, car.is_connected) == ("car", True)

    run(work())
    with pytest.raises(ConfigError, match="cannot be read"):
        Client.connect(tmp_path / "nothing.json")


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": object()}, "\ud800", 7])
def test_payloads_that_cannot_be_sent_are_refused(edge: Edge, payload: Any) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            with pytest.raises(WireError, match="cannot be sent"):
                await car.publish("a", payload)
            with pytest.raises(WireError, match="exceeds the limit"):
                await car.publish("a", b"x" * 2_000)

    run(work())

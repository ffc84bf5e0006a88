"""Programs of a vehicle share its session over loopback; others cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nearcast.sdk.client import Client
from nearcast.site.client_endpoint import ClientEndpoint
from nearcast.site.local_streams import LocalQueue
from nearcast.wire.notification import Notification
from sdk.edge import Edge

TOKEN = "secret"


@pytest.fixture
def edge() -> Iterator[Edge]:
    """A server that acknowledges and forwards."""
    with Edge() as server:
        yield server


@asynccontextmanager
async def local(edge: Edge) -> AsyncIterator[ClientEndpoint]:
    async with Client.connect(edge.enrol("car")) as client:
        endpoint = ClientEndpoint(client, TOKEN)
        await endpoint.start()
        try:
            yield endpoint
        finally:
            await endpoint.close()


class Answer:
    """A request under way: its status, and its lines one by one."""

    def __init__(self, endpoint: ClientEndpoint) -> None:
        self.endpoint = endpoint

    async def ask(
        self, method: str, target: str, body: bytes = b"", *, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        host, port = self.endpoint.address
        self.reader, self.writer = await asyncio.open_connection(host, port)
        sent = {"Host": f"{host}:{port}", "Authorization": f"Bearer {TOKEN}"} | (headers or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        head = f"{method} {target} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        status = int((await self.reader.readline()).split()[1])
        while (await self.reader.readline()).strip():
            pass
        return status, await self.line()

    async def line(self) -> Any:
        async with asyncio.timeout(60):
            text = await self.reader.readline()
        return json.loads(text) if text else None

    def close(self) -> None:
        self.writer.close()


async def ask(
    endpoint: ClientEndpoint, *words: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    answer = Answer(endpoint)
    found = await answer.ask(*words, headers=headers)
    answer.close()
    return found


def test_one_program_publishes_and_others_hear_it(edge: Edge) -> None:
    async def run() -> None:
        async with local(edge) as endpoint:
            hearers = [Answer(endpoint) for _ in range(2)]
            for one in hearers:
                assert await one.ask("GET", "/subscribe?topic=road") == (
                    200,
                    {"subscribed": "road"},
                )
            lines = (
                b'{"topic": "road", "payload": {"ice": true}}\n{"topic": "other", "payload": "x"}'
            )
            teller = Answer(endpoint)
            assert await teller.ask("POST", "/publish", lines) == (200, {"line": 1, "sequence": 1})
            assert await teller.line() == {"line": 2, "sequence": 1}
            assert await teller.line() is None
            for one in hearers:
                heard = await one.line()
                assert (heard["topic"], heard["payload"]) == ("road", '{"ice":true}')
            status, found = await ask(endpoint, "GET", "/status")
            assert (status, found["client"], found["subscriptions"]) == (200, "car", ["road"])
            for one in (*hearers, teller):
                one.close()
            async with asyncio.timeout(60):
                while (await ask(endpoint, "GET", "/status"))[1]["subscriptions"]:
                    pass
            assert await ask(endpoint, "POST", "/report", b'{"x_km": 1, "y_km": 2}') == (
                200,
                {"reported": True},
            )

    asyncio.run(run())


def test_each_program_hears_what_its_own_filter_lets_through(edge: Edge) -> None:
    """However many share the subscription; the server is asked for what any of them wants."""
    wanted = {
        "all": "",
        "cheap": "&where=price%20%3C%202",
        "fuel": "&where=kind%20%3D%20%22fuel%22",
    }
    heard: dict[str, list[str]] = {}

    async def run() -> None:
        async with local(edge) as endpoint:
            hearers = {name: Answer(endpoint) for name in wanted}
            for name in ("cheap", "fuel", "all"):
                status, _ = await hearers[name].ask("GET", f"/subscribe?topic=a{wanted[name]}")
                assert status == 200
            asked = endpoint._streams._where
            assert asked("a") == ""
            lines = [
                {"topic": "a", "payload": "1", "attributes": {"price": 1.5, "kind": "fuel"}},
                {"topic": "a", "payload": "2", "attributes": {"price": 2.5, "kind": "fuel"}},
                {"topic": "a", "payload": "3", "attributes": {"price": 1.5, "kind": "food"}},
                {"topic": "a", "payload": "4", "attributes": {"kind": "food"}},
                {"topic": "a", "payload": "end", "attributes": {"price": 0, "kind": "fuel"}},
            ]
            body = "\n".join(map(json.dumps, lines)).encode()
            assert (await ask(endpoint, "POST", "/publish", body))[0] == 200
            for name, one in hearers.items():
                texts = heard.setdefault(name, [])
                while "end" not in texts:
                    texts.append((await one.line())["payload"])
            hearers["all"].close()
            async with asyncio.timeout(60):
                while not asked("a"):
                    await ask(endpoint, "GET", "/status")
            assert asked("a") == '(price < 2) or (kind = "fuel")'
            for one in hearers.values():
                one.close()

    asyncio.run(run())
    assert heard == {
        "all": ["1", "2", "3", "4", "end"],
        "cheap": ["1", "3", "end"],
        "fuel": ["1", "2", "end"],
    }


@pytest.mark.parametrize(
    ("words", "headers", "status"),
    [
        (("GET", "/status"), {"Authorization": "Bearer wrong"}, 401),
        (("GET", "/status"), {"Host": "evil.example:80"}, 403),
        (("GET", "/status"), {"Origin": "http://127.0.0.1"}, 403),
        (("GET", "/nothing"), {}, 404),
        (("GET", "/subscribe"), {}, 400),
        (("GET", "/subscribe?topic=a&topic=b"), {}, 400),
        (("GET", "/subscribe?topic=a&where=price%20%3C"), {}, 400),
        (("GET", "/subscribe?topic=a&area=POINT"), {}, 400),
        (("POST", "/publish", b"no json"), {}, 400),
        (("POST", "/publish", b'{"payload": ' + b"[" * 9_999 + b"]" * 9_999 + b"}"), {}, 400),
        (("POST", "/publish", b'{"payload": "x"}'), {}, 400),
        (("POST", "/report", b'{"x_km": 1}'), {}, 400),
    ],
)
def test_others_and_mistakes_get_one_clear_error(
    edge: Edge, words: tuple[Any, ...], headers: dict[str, str], status: int
) -> None:
    async def run() -> None:
        async with local(edge) as endpoint:
            found, said = await ask(endpoint, *words, headers=headers)
            assert found == status
            assert said["error"]

    asyncio.run(run())


def test_connections_that_show_no_token_keep_nobody_out(edge: Edge) -> None:
    async def run() -> None:
        async with local(edge) as endpoint:
            hearer = Answer(endpoint)
            await hearer.ask("GET", "/subscribe?topic=road")
            silent = [await asyncio.open_connection(*endpoint.address) for _ in range(150)]
            assert (await ask(endpoint, "GET", "/status"))[0] == 200
            assert (await ask(endpoint, "POST", "/publish", b'{"topic": "road", "payload": ""}'))[
                0
            ] == 200
            assert (await hearer.line())["topic"] == "road"
            assert await silent[0][0].read() == b"", "the oldest has given way"
            for _, writer in silent:
                writer.close()
            hearer.close()

    asyncio.run(run())


def test_the_body_of_a_request_without_the_token_is_not_waited_for(edge: Edge) -> None:
    async def run() -> None:
        async with local(edge) as endpoint:
            reader, writer = await asyncio.open_connection(*endpoint.address)
            host = f"{endpoint.address[0]}:{endpoint.address[1]}"
            writer.write(f"POST /publish HTTP/1.1\r\nHost: {host}\r\n".encode())
            writer.write(b"Content-Length: 1000000\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()

    asyncio.run(run())


def test_programs_with_the_token_are_told_when_there_are_too_many(edge: Edge) -> None:
    async def run() -> None:
        async with local(edge) as endpoint:
            hearers = [Answer(endpoint) for _ in range(64)]
            for one in hearers:
                assert (await one.ask("GET", "/subscribe?topic=road"))[0] == 200
            status, said = await ask(endpoint, "GET", "/status")
            assert (status, said) == (503, {"error": "too many requests are under way"})
            for one in hearers:
                one.close()

    asyncio.run(run())


def test_a_program_that_does_not_read_loses_the_oldest_and_is_told_how_many() -> None:
    async def run() -> None:
        queue = LocalQueue("t", limit=2)
        for number in range(5):
            queue.put(Notification("t", "car", 1, number, True, 0, b""))
        first, dropped = await queue.get()
        assert (first.sequence, dropped) == (3, 3)
        second, dropped = await queue.get()
        assert (second.sequence, dropped) == (4, 0)

    asyncio.run(run())

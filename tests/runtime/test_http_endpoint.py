"""The HTTP side, asked by the standard library's client and by clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from typing import Any

import pytest
import uvloop

from nearcast.errors import ConfigError
from nearcast.runtime.http_endpoint import HttpEndpoint
from runtime.serving import serving


class Server:
    """What an endpoint asks."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.asked: list[tuple[str, str, bytes, str | None]] = []

    async def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        self.asked.append((method, path, body, headers.get("Authorization")))
        if path == "/broken":
            raise ValueError("a bug")
        return (201, {"path": path}) if path.startswith("/clients") else (404, {"error": "none"})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture(params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def endpoint(server: Server, request: pytest.FixtureRequest) -> Iterator[HttpEndpoint]:
    endpoint = HttpEndpoint(
        "127.0.0.1",
        0,
        status=lambda: {"sessions": 3},
        metrics=lambda: b"up 1\n",
        health=lambda: server.reasons,
        answer=server.answer,
        body_limit_bytes=1_000,
        request_timeout_s=0.2,
    )
    with serving(endpoint, request.param):
        yield endpoint


def ask(
    endpoint: HttpEndpoint,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes, str | None]:
    connection = HTTPConnection(*endpoint.address, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read(), response.getheader("Content-Type")
    finally:
        connection.close()


def raw(endpoint: HttpEndpoint, sent: bytes) -> bytes:
    """Send bytes and return all that comes until the server closes."""
    with socket.create_connection(endpoint.address, timeout=30) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def test_metrics_status_and_health_are_shown(endpoint: HttpEndpoint, server: Server) -> None:
    status, body, kind = ask(endpoint, "GET", "/metrics?name=x")
    assert (status, body) == (200, b"up 1\n")
    assert kind is not None
    assert kind.startswith("text/plain")
    status, body, kind = ask(endpoint, "GET", "/status")
    assert (status, json.loads(body), kind) == (200, {"sessions": 3}, "application/json")
    assert ask(endpoint, "GET", "/health")[:2] == (200, b'{"status": "ok"}\n')
    server.reasons = ["the disk is full"]
    status, body, _ = ask(endpoint, "GET", "/health")
    assert status == 503
    assert json.loads(body) == {"status": "unwell", "reasons": ["the disk is full"]}


def test_other_requests_go_to_the_answerer_with_body_and_headers(
    endpoint: HttpEndpoint, server: Server
) -> None:
    given = {"authorization": "Bearer x"}
    status, body, _ = ask(endpoint, "POST", "/clients/a%20b", b'{"a": 1}', given)
    assert (status, json.loads(body)) == (201, {"path": "/clients/a%20b"})
    assert server.asked == [("POST", "/clients/a%20b", b'{"a": 1}', "Bearer x")]
    assert ask(endpoint, "DELETE", "/none")[0] == 404


def test_without_an_answerer_there_is_nothing_else() -> None:
    with serving(HttpEndpoint("127.0.0.1", 0, status=dict)) as endpoint:
        assert ask(endpoint, "GET", "/health")[0] == 200
        assert ask(endpoint, "GET", "/metrics")[0] == 404
        assert ask(endpoint, "POST", "/status", b"")[0] == 404


def test_a_route_that_raises_is_counted_and_the_next_request_answered(
    endpoint: HttpEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    status, body, _ = ask(endpoint, "GET", "/broken")
    assert status == 500
    assert b"a bug" not in body
    assert endpoint.failures == 1
    assert "a bug" in caplog.text
    assert ask(endpoint, "GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (b"POST /clients HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", b"413"),
        (b"POST /clients HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n", b"413"),
        (b"POST /clients HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411"),
        (b"POST /clients HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", b"411"),
        (b"POST /clients HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"PATCH / HTTP/1.1\r\n\r\n", b"501"),
    ],
)
def test_requests_that_are_none_are_refused_and_harm_nobody(
    endpoint: HttpEndpoint, server: Server, request_text: bytes, answer: bytes
) -> None:
    assert answer in raw(endpoint, request_text)
    assert server.asked == []
    assert ask(endpoint, "GET", "/health")[0] == 200


def test_clients_that_say_nothing_or_stop_in_the_middle_are_cut_off(
    endpoint: HttpEndpoint, server: Server
) -> None:
    half = b"POST /clients HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"
    for sent in (b"", half):
        assert raw(endpoint, sent) == b""
    assert server.asked == []
    assert ask(endpoint, "GET", "/health")[0] == 200


def test_a_port_in_use_is_named(endpoint: HttpEndpoint) -> None:
    port = endpoint.address[1]
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1, HTTP port {port}: another program"):
        asyncio.run(HttpEndpoint("127.0.0.1", port, status=dict).start())
    with pytest.raises(ConfigError, match="HTTP port 70000"):
        asyncio.run(HttpEndpoint("127.0.0.1", 70_000, status=dict).start())


def test_of_too_many_silent_clients_the_oldest_gives_way(endpoint: HttpEndpoint) -> None:
    endpoint.request_timeout_s = 60.0
    with ExitStack() as opened:
        silent = [
            opened.enter_context(socket.create_connection(endpoint.address, timeout=30))
            for _ in range(32)
        ]
        assert ask(endpoint, "GET", "/health")[0] == 200
        with suppress(ConnectionError):
            assert silent[0].recv(1) == b""
    assert len(endpoint.connections) <= 32


def test_a_request_may_come_in_pieces(endpoint: HttpEndpoint, server: Server) -> None:
    with socket.create_connection(endpoint.address, timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (b"PUT /clients HT", b"TP/1.1\r\nContent-Length: 4\r\n", b"\r\nab", b"cd"):
            connection.sendall(part)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 201 Created\r\n")
    assert server.asked == [("PUT", "/clients", b"abcd", None)]

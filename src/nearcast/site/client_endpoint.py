"""The local interface of a vehicle: one session, which all programs on the machine share by HTTP.

It listens on loopback only. A request shows the token of a file that only its owner can read, and
the host it means; one that a web page caused is refused. Everything that waits is bounded: of
connections that have not shown the token the oldest gives way, so that other users of the machine
do not keep programs out by silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from nearcast.errors import ConfigError, NearcastError
from nearcast.runtime.http_request import Request, RequestError, parse_head
from nearcast.sdk.client import Client
from nearcast.sdk.client_lines import PublicationLine, ReportLine, notification_line
from nearcast.site.local_streams import LocalStreams

__all__ = ["ClientEndpoint"]

_HOST = "127.0.0.1"
_MOST_CONNECTIONS = 64
"""That have shown the token; and as many that have not."""
_BODY_LIMIT_BYTES = 1 << 20
_REQUEST_S = 10.0
"""How long a program may take to send its request."""


class ClientEndpoint:
    """Answers programs between `start` and `close`.

    Parameters
    ----------
    client
        Connected; the endpoint takes all its notifications.
    token
        What each request has to show.
    answer_s
        How long acknowledgements and confirmations are waited for.
    """

    def __init__(self, client: Client, token: str, port: int = 0, answer_s: float = 10.0) -> None:
        self._client, self._token, self._answer_s = client, token, answer_s
        self.address = (_HOST, port)
        self._streams = LocalStreams(client)
        self._unproved: dict[asyncio.Task[Any], None] = {}
        self._proved: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen; ConfigError when the port cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, *self.address)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen at {_HOST}, port {self.address[1]}: {error}"
            ) from None
        self.address = (_HOST, int(self._server.sockets[0].getsockname()[1]))
        self._streams.start()

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        self._server.close()
        tasks = [*self._unproved, *self._proved]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._streams.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._unproved[task] = None
        if len(self._unproved) > _MOST_CONNECTIONS:
            oldest = next(iter(self._unproved))
            del self._unproved[oldest]
            oldest.cancel()
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            pass  # the program has gone, or says nothing, or `close` was called
        finally:
            self._unproved.pop(task, None)
            self._proved.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                request, body = await _read_head(reader)
                self._check(request)
                self._prove()
                request.body = body + await reader.readexactly(request.body_bytes - len(body))
            lines = self._route(request)
        except RequestError as error:
            _begin(writer, error.status)
            writer.write(_line({"error": str(error)}))
            await writer.drain()
            return
        sending = asyncio.ensure_future(_send(writer, lines))
        gone = asyncio.ensure_future(reader.read(1))  # a stream ends when its program does
        try:
            await asyncio.wait({sending, gone}, return_when="FIRST_COMPLETED")
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    def _check(self, request: Request) -> None:
        host, headers = request.headers.get("Host", ""), request.headers
        if host.rpartition(":")[0] not in (_HOST, "localhost") or "Origin" in headers:
            raise RequestError(HTTPStatus.FORBIDDEN, "only programs on this machine are answered")
        shown = headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(), self._token.encode()):
            raise RequestError(HTTPStatus.UNAUTHORIZED, "show the token: Authorization: Bearer ...")

    def _prove(self) -> None:
        """Let the program's connection stay, however many come."""
        if len(self._proved) >= _MOST_CONNECTIONS:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are under way")
        task = asyncio.current_task()
        assert task is not None
        self._unproved.pop(task, None)
        self._proved.add(task)

    def _route(self, request: Request) -> AsyncGenerator[dict[str, Any], None]:
        try:
            place = urlsplit(request.target)
        except ValueError as error:  # brackets that are no address
            raise RequestError(HTTPStatus.BAD_REQUEST, f"the target: {error}") from None
        match request.method, place.path:
            case "GET", "/status":
                return self._status()
            case "POST", "/publish":
                return self._publish(request.body)
            case "POST", "/report":
                return self._report(request.body)
            case "GET", "/subscribe":
                return self._subscribe(*_subscription(place.query))
        raise RequestError(HTTPStatus.NOT_FOUND, f"there is no {request.method} {place.path}")

    async def _status(self) -> AsyncGenerator[dict[str, Any], None]:
        client = self._client
        host, port = client.home.address
        yield {
            "client": client.name,
            "home": f"{host}:{port}",
            "connected": client.is_connected,
            "unacknowledged": client.unacknowledged,
            "subscriptions": self._streams.topics,
        }

    async def _publish(self, body: bytes) -> AsyncGenerator[dict[str, Any], None]:
        """Publish lines in order; say what became of each: all are read before any is sent."""
        found = [
            msgspec.json.decode(line, type=PublicationLine) for line in body.splitlines() if line
        ]
        if any(line.topic is None for line in found):
            raise ConfigError("a line names no topic")
        receipts = [
            await self._client.publish(
                line.topic or "",
                line.data(),
                durable=line.durable is not False,
                position=line.position(self._client.degrees is not None),
                attributes=line.attributes,
                area=line.area,
                valid_s=line.valid_s,
                message_class=line.message_class or "",
            )
            for line in found
        ]
        for number, receipt in enumerate(receipts, 1):
            said: dict[str, Any] = {"line": number, "sequence": receipt.sequence}
            try:
                async with asyncio.timeout(self._answer_s):
                    await receipt
            except TimeoutError:
                said["error"] = "not acknowledged yet; it is sent again until it is"
            except NearcastError as error:
                said["error"] = str(error)
            yield said

    async def _report(self, body: bytes) -> AsyncGenerator[dict[str, Any], None]:
        said = msgspec.json.decode(body, type=ReportLine)
        place = said.position(self._client.degrees is not None)
        self._client.report(*place, said.direction_deg, said.speed_mps, at_once=True)
        yield {"reported": True}

    async def _subscribe(self, topic: str, where: str) -> AsyncGenerator[dict[str, Any], None]:
        async with self._streams.subscribed(topic, self._answer_s, where) as queue:
            yield {"subscribed": topic}
            while True:
                notification, dropped = await queue.get()
                if dropped:
                    yield {"dropped": dropped}
                yield notification_line(notification)


def _subscription(query: str) -> tuple[str, str]:
    """Return the topic and the filter that a program asks for."""
    asked = parse_qs(query, keep_blank_values=True)
    if unknown := [name for name in asked if name not in ("topic", "where")]:
        problem = f"unknown: {unknown[0]!r:.40}; a subscription has topic and where"
        raise RequestError(HTTPStatus.BAD_REQUEST, problem)
    if len(asked.get("topic", ())) != 1 or len(asked.get("where", "1")) != 1:
        raise RequestError(HTTPStatus.BAD_REQUEST, "name one topic: /subscribe?topic=a")
    return asked["topic"][0], asked.get("where", [""])[0]


async def _read_head(reader: asyncio.StreamReader) -> tuple[Request, bytes]:
    """Return a request, and what has come of its body."""
    received = bytearray()
    while (found := parse_head(received, _BODY_LIMIT_BYTES)) is None:
        data = await reader.read(1 << 16)
        if not data:
            raise asyncio.IncompleteReadError(bytes(received), None)
        received += data
    request, head_bytes = found
    return request, bytes(received[head_bytes:])[: request.body_bytes]


async def _send(writer: asyncio.StreamWriter, lines: AsyncGenerator[dict[str, Any], None]) -> None:
    """Send lines as they come; a mistake in the request is known before the first."""
    is_begun = False
    async with contextlib.aclosing(lines):
        try:
            async for line in lines:
                if not is_begun:
                    _begin(writer, HTTPStatus.OK)
                    is_begun = True
                writer.write(_line(line))
                await writer.drain()
        except (NearcastError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            if not is_begun:
                _begin(writer, HTTPStatus.BAD_REQUEST)
            writer.write(_line({"error": str(error)}))
            await writer.drain()


def _begin(writer: asyncio.StreamWriter, status: int) -> None:
    head = f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}\r\n"
    head += "Content-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, default=str).encode() + b"\n"

"""A server's HTTP side for operators: metrics, health, status, and what the manager adds.

It runs on the server's own loop: requests are few, small, and answered from memory. A connection
brings one request; clients that are slow or silent are cut off, and when too many come the oldest
of those first.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from nearcast.errors import ConfigError
from nearcast.runtime.http_request import Request, RequestError, parse_head

__all__ = ["Answer", "HttpEndpoint"]

_log = logging.getLogger(__name__)
_MOST_CONNECTIONS = 32
_BACKLOG = 128
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Answer = Callable[[str, str, bytes, Mapping[str, str]], Awaitable[tuple[int, Any]]]
"""Gets a request's method, path, body and headers (named like ``Content-Type``); returns the
status and what is to be sent as JSON."""


class HttpEndpoint:
    """Answers requests between `start` and `close`.

    Parameters
    ----------
    host, port
        Where; port 0 takes any free one.
    status
        Returns what ``/status`` shows.
    metrics
        Returns the text of ``/metrics``.
    health
        Returns the reasons why the server is not well, none when it is.
    warnings
        Returns what operators should look at though the server is well.
    answer
        Answers all other requests; without it there are none.
    body_limit_bytes
        Larger requests are refused unread.
    request_timeout_s
        How long a client may take to send its request, and to read the answer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        status: Callable[[], Any],
        metrics: Callable[[], bytes] | None = None,
        health: Callable[[], list[str]] | None = None,
        warnings: Callable[[], list[str]] | None = None,
        answer: Answer | None = None,
        body_limit_bytes: int = 1 << 20,
        request_timeout_s: float = 5.0,
    ) -> None:
        self._status, self._metrics, self._health = status, metrics, health
        self._answer_others, self._warnings = answer, warnings
        self.body_limit_bytes, self.request_timeout_s = body_limit_bytes, request_timeout_s
        self.address: tuple[str, int] = (host, port)
        """Host and port at which it listens."""
        self.failures = 0
        """Requests whose route raised."""
        self.connections: dict[_Connection, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen.

        Raises
        ------
        ConfigError
            When the address cannot be had.
        """
        host, port = self.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            if not 0 <= port < 1 << 16:  # the library would leave a socket behind
                raise OverflowError("ports end at 65535")
            listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            in_use = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "another program uses it; choose another port" if in_use else str(error)
            raise ConfigError(f"cannot listen at {host}, HTTP port {port}: {why}") from None
        self.address = (host, int(listener.getsockname()[1]))
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), sock=listener)

    async def close(self) -> None:
        """Stop listening and cut off all clients; may be called twice."""
        if self._server is not None:
            self._server.close()
            for connection in list(self.connections):
                connection.cut_off()
            await self._server.wait_closed()
            self._server = None

    async def answer(self, request: Request) -> tuple[int, Any]:
        """Return the status and the content of the answer to a request."""
        path = urlsplit(request.target).path
        match request.method, path:
            case "GET", "/status":
                return 200, self._status()
            case "GET", "/metrics" if self._metrics is not None:
                return 200, self._metrics()
            case "GET", "/health":
                reasons = self._health() if self._health is not None else []
                if reasons:
                    return 503, {"status": "unwell", "reasons": reasons}
                doubts = self._warnings() if self._warnings is not None else []
                return 200, {"status": "ok", "warnings": doubts} if doubts else {"status": "ok"}
            case method, _ if self._answer_others is not None:
                return await self._answer_others(method, path, request.body, request.headers)
            case method, _:
                return 404, {"error": f"there is no {method} {path}"}


class _Connection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_answered = False
        """Whether the answer was made; the client may still be reading it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, unless too many are under way."""
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one by its methods only
        connections = self._endpoint.connections
        self._timer = self._loop.call_later(self._endpoint.request_timeout_s, self._transport.abort)
        if len(connections) >= _MOST_CONNECTIONS:
            others = (one for one in connections if not one.is_worked_on)
            # silent ones first: who was answered may still be reading
            idle = min(others, key=lambda one: one.is_answered, default=None)
            if idle is None:
                self._transport.abort()
                return
            del connections[idle]
            idle.cut_off()
        connections[self] = None

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it."""
        self._timer.cancel()
        self._endpoint.connections.pop(self, None)
        if self._task is not None:
            self._task.cancel()

    @property
    def is_worked_on(self) -> bool:
        """Whether a whole request has come, and its answer has not been made."""
        return self._task is not None and not self.is_answered

    def cut_off(self) -> None:
        """End it now."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of the request, and answer it when it is whole."""
        if self.is_answered or self._task is not None:
            return
        self._received += data
        try:
            if self._request is None:
                found = parse_head(self._received, self._endpoint.body_limit_bytes)
                if found is None:
                    return
                self._request, head_bytes = found
                del self._received[:head_bytes]
        except RequestError as error:
            self._send(error.status, {"error": str(error)})
            return
        if len(self._received) >= self._request.body_bytes:
            self._request.body = bytes(self._received[: self._request.body_bytes])
            self._timer.cancel()
            self._task = self._loop.create_task(self._answer(self._request))

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._endpoint.answer(request)
        except Exception:
            self._endpoint.failures += 1
            _log.exception("http_failed", extra={"fields": {"path": request.target}})
            answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "see the server's log"}
        self._send(*answer)

    def _send(self, status: int, content: Any) -> None:
        is_text = isinstance(content, bytes)
        body = content if is_text else json.dumps(content, default=str).encode() + b"\n"
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Content-Type: {_METRICS_TYPE if is_text else 'application/json'}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._timer.cancel()
        self._timer = self._loop.call_later(self._endpoint.request_timeout_s, self._transport.abort)
        self.is_answered = True
        self._transport.write(head.encode() + body)
        # the client closes: if we did with something unread, the answer might never arrive
        self._transport.write_eof()

"""A server's HTTP side for operators: metrics, health, status, and what the manager adds.

It runs in a thread of its own; whatever a request does, the server goes on.
"""

from __future__ import annotations

import errno
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import urlsplit

from nearcast.errors import ConfigError

__all__ = ["Answer", "HttpEndpoint"]

_log = logging.getLogger(__name__)
_MOST_CONNECTIONS = 32
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


Answer = Callable[[str, str, bytes, Mapping[str, str]], tuple[int, Any]]
"""Gets a request's method, path, body and headers (named like ``Content-Type``), in any thread;
returns the status and what is to be sent as JSON."""


class HttpEndpoint:
    """Listens as soon as it is made. All functions given are called in any thread.

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
        How long a client may be silent.

    Raises
    ------
    ConfigError
        When the address cannot be had.
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
        def answer_all(
            method: str, path: str, body: bytes, headers: Mapping[str, str]
        ) -> tuple[int, Any]:
            if (method, path) == ("GET", "/status"):
                return 200, status()
            if (method, path) == ("GET", "/metrics") and metrics is not None:
                return 200, metrics()
            if (method, path) == ("GET", "/health"):
                reasons = health() if health is not None else []
                if reasons:
                    return 503, {"status": "unwell", "reasons": reasons}
                doubts = warnings() if warnings is not None else []
                return 200, {"status": "ok", "warnings": doubts} if doubts else {"status": "ok"}
            if answer is not None:
                return answer(method, path, body, headers)
            return 404, {"error": f"there is no {method} {path}"}

        settings = {"answer_all": staticmethod(answer_all), "timeout": request_timeout_s}
        handler = type("_Handler", (_Handler,), settings | {"body_limit_bytes": body_limit_bytes})
        try:
            self._server = _Server((host, port), handler)
        except (OSError, OverflowError) as error:
            in_use = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "another program uses it; choose another port" if in_use else str(error)
            raise ConfigError(f"cannot listen at {host}, HTTP port {port}: {why}") from None
        self.address: tuple[str, int] = (host, int(self._server.server_address[1]))
        """Host and port at which it listens."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="http", daemon=True
        )
        self._thread.start()

    @property
    def failures(self) -> int:
        """Requests whose route raised."""
        return self._server.failures

    def close(self) -> None:
        """Stop listening; may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a silent client must not hold up the end

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.failures = 0
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of the machine's name, which may take seconds."""
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, unless too many requests are under way: those are cut."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in this thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are none of our errors."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "nearcast", ""
    answer_all: Answer
    body_limit_bytes: int

    def do_GET(self) -> None:
        """Answer."""
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            self._send(HTTPStatus.LENGTH_REQUIRED, {"error": "send a Content-Length"})
        elif len(length) > 18 or int(length) > self.body_limit_bytes:
            error = f"more than {self.body_limit_bytes} bytes"
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": error})
        else:
            body = self.rfile.read(int(length))
            headers = {name.title(): value for name, value in self.headers.items()}
            try:
                answer = self.answer_all(self.command, urlsplit(self.path).path, body, headers)
            except Exception:
                self.server.failures += 1
                _log.exception("http_failed", extra={"fields": {"path": self.path}})
                answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "see the server's log"}
            self._send(*answer)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Write nothing: scrapes come every few seconds."""

    def _send(self, status: int, content: Any) -> None:
        is_text = isinstance(content, bytes)
        body = content if is_text else json.dumps(content, default=str).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", _METRICS_TYPE if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

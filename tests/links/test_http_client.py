"""Questions over HTTP: answers, refusals, and what is not an answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from nearcast.errors import ConfigError, NearcastError
from nearcast.links.http_client import HttpRefusedError, ask


class _Server(HTTPServer):
    reply: tuple[int, bytes] = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        code, data = self.server.reply
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as one:
        thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def _url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/status"


def test_a_question_brings_json(server: _Server) -> None:
    server.reply = (200, b'{"a": [1]}')
    assert ask(_url(server)) == {"a": [1]}
    assert server.asked == [("/status", None, None)]
    assert ask(_url(server), {"b": 2}, "secret") == {"a": [1]}
    assert server.asked[1:] == [("/status", "Bearer secret", {"b": 2})]


def test_a_refusal_has_its_code_and_words(server: _Server) -> None:
    server.reply = (503, b"not yet\n")
    with pytest.raises(HttpRefusedError, match="answered 503: not yet") as refused:
        ask(_url(server))
    assert (refused.value.code, refused.value.said) == (503, "not yet")


def test_the_token_never_follows_a_redirection(server: _Server) -> None:
    server.reply = (302, b"")
    with pytest.raises(HttpRefusedError, match="answered 302"):
        ask(_url(server), token="secret")
    assert [path for path, *_ in server.asked] == ["/status"]


def test_what_is_not_an_answer_is_an_error_of_one_line(server: _Server) -> None:
    server.reply = (200, b"<html>\n")
    with pytest.raises(NearcastError, match="answered what is not JSON") as found:
        ask(_url(server))
    assert "\n" not in str(found.value)
    with pytest.raises(NearcastError, match="does not answer"):
        ask("http://127.0.0.1:1/status")


@pytest.mark.parametrize(
    ("url", "token"),
    [("file:///etc/passwd", "t"), ("http://", "t"), ("http://[", "t"), ("http://a", "two words")],
)
def test_what_cannot_be_asked_is_not(url: str, token: str) -> None:
    with pytest.raises(ConfigError):
        ask(url, token=token)

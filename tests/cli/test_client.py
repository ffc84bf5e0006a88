"""``nearcast client`` as scripts use it, against a real server on loopback."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Answer, Run
from nearcast.sdk import Client, load_credentials, save_credentials
from nearcast.testing.authority import ALWAYS, SmallAuthority
from nearcast.trust.credentials import (
    ClientCredential,
    ServerCredential,
    issue_client,
    issue_server,
)
from nearcast.trust.signed import SigningKey
from nearcast.wire.messages import Report
from sdk.edge import Edge

PROGRAM = "from nearcast.cli.main import main; main()"


@pytest.fixture
def edge() -> Iterator[Edge]:
    with Edge() as server:
        yield server


@pytest.fixture
def car(edge: Edge, tmp_path: Path) -> Path:
    file = tmp_path / "car.json"
    save_credentials(edge.enrol("car"), file)
    return file


def _type(monkeypatch: pytest.MonkeyPatch, *lines: object) -> None:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def _rows(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.out.splitlines()]


def test_lines_are_published_and_each_acknowledgement_is_a_line(
    run: Run, edge: Edge, car: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _type(
        monkeypatch,
        {"topic": "a", "payload": "text", "x_km": 1, "y_km": 2},
        "",
        {"payload": {"speed": [1, None]}},
        {"payload_base64": base64.b64encode(b"\xff").decode()},
        {"payload": None},
    )
    answer = run("client", "publish", "--credentials", car, "--topic", "b", "--json")
    assert (answer.code, answer.err) == (0, "published 4, acknowledged 4\n")
    assert edge.site.taken["car", "a"] == [b"text"]
    assert edge.site.taken["car", "b"] == [b'{"speed":[1,null]}', b"\xff", b"null"]
    assert edge.site.positions == [(1.0, 2.0), None, None, None]
    rows = _rows(answer)
    assert [(row["line"], row["topic"], row["sequence"], row["durable"]) for row in rows] == [
        (1, "a", 1, True),
        (3, "b", 1, True),
        (4, "b", 2, True),
        (5, "b", 3, True),
    ]


def test_one_message_is_published(run: Run, edge: Edge, car: Path) -> None:
    words = ("client", "publish", "--credentials", car, "--topic", "a", "--message", "hello")
    answer = run(*words)
    assert (answer.code, answer.out) == (0, "")
    answer = run(*words, "--not-durable", "--json")
    assert answer.err == "published 1, sent 1\n"
    assert (answer.json["durable"], answer.json["sequence"]) == (False, 1)
    assert edge.site.taken["car", "a"] == [b"hello"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "truncated"),
        ("7", "Expected `object`, got `int`"),
        ({"topic": "a"}, "needs either payload or payload_base64"),
        ({"payload": 1, "payload_base64": ""}, "needs either payload or payload_base64"),
        ({"payload_base64": "?"}, "payload_base64 is no base64"),
        ({"payload": "x", "x_km": 1}, "needs both x_km and y_km"),
        ({"payload": "x", "colour": 1}, "unknown field `colour`"),
        ({"payload": "x" * 3000}, "exceeds the limit"),
        ({"payload": "x", "topic": "/" * 20}, "topic"),
        ("x" * 2_000_000, "longer than"),
        ("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), "line 2"),
    ],
)
def test_a_bad_line_is_named_and_those_before_it_are_safe(
    run: Run, edge: Edge, car: Path, monkeypatch: pytest.MonkeyPatch, line: object, problem: str
) -> None:
    _type(monkeypatch, {"payload": "good"}, line, {"payload": "never read"})
    answer = run("client", "publish", "--credentials", car, "--topic", "a")
    assert answer.code == 2
    assert answer.err.startswith("published 1, acknowledged 1\nerror: line 2: ")
    assert problem in answer.err
    assert edge.site.taken["car", "a"] == [b"good"]


def test_thousands_of_lines_are_published_in_order(
    run: Run, edge: Edge, car: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _type(monkeypatch, *({"payload": str(number)} for number in range(6000)))
    answer = run("client", "publish", "--credentials", car, "--topic", "a", "--json")
    assert answer.err == "published 6000, acknowledged 6000\n"
    assert edge.site.taken["car", "a"] == [b"%d" % number for number in range(6000)]
    assert [row["line"] for row in _rows(answer)] == list(range(1, 6001))


def test_a_line_without_any_topic_is_named(
    run: Run, car: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _type(monkeypatch, {"payload": "x"})
    answer = run("client", "publish", "--credentials", car)
    assert answer.err == (
        "published 0, acknowledged 0\nerror: line 1: no topic; name one in the line or by --topic\n"
    )


def test_what_is_not_acknowledged_is_an_error(
    run: Run, edge: Edge, car: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge.acknowledges = False
    _type(monkeypatch, {"payload": "x"}, "{")
    words = ("client", "publish", "--credentials", car, "--topic", "a", "--timeout", "1")
    answer = run(*words, "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "published 1, acknowledged 0\nerror: line 2: " in answer.err
    assert "1 publications were not acknowledged" in answer.err
    assert "1 publications were not" in run(*words, "--message", "y").err


def test_notifications_are_lines_with_the_delay_of_each_stage(
    run: Run, edge: Edge, car: Path, tmp_path: Path
) -> None:
    payloads = [b"ice", b"\xff\x00"]
    edge.do(lambda: _publish_when_subscribed(edge, payloads))
    answer = run("client", "subscribe", "--credentials", car, "--topic", "a", "--count", "2")
    assert (answer.code, answer.err) == (0, "subscribed to a\n")
    first, second = _rows(answer)
    assert (first["topic"], first["publisher"], first["payload"]) == ("a", "bus", "ice")
    assert base64.b64decode(second["payload_base64"]) == b"\xff\x00"
    assert "payload" not in second
    assert (first["processing_ms"], first["between_ms"]) == (1.5, 2.5)
    legs = first["publish_leg_ms"] + first["notify_leg_ms"]
    assert first["total_ms"] == pytest.approx(legs + 4.0)


def _publish_when_subscribed(edge: Edge, payloads: list[bytes]) -> None:
    """Let another client publish as soon as somebody has subscribed."""
    confirm = edge.sessions.confirm
    credentials = edge.enrol("bus")

    async def publish() -> None:
        async with Client.connect(credentials) as bus:
            for payload in payloads:
                await bus.publish_and_wait("a", payload)

    def confirm_and_publish(client: str, request: int, accepted: bool, reason: str = "") -> None:
        confirm(client, request, accepted, reason)
        threading.Thread(target=lambda: asyncio.run(publish()), daemon=True).start()

    edge.sessions.confirm = confirm_and_publish  # type: ignore[method-assign]


def test_too_few_notifications_in_time_are_an_error(run: Run, car: Path) -> None:
    words = ("client", "subscribe", "--credentials", car, "--topic", "a", "--for", "0.01")
    answer = run(*words, "--count", "3")
    assert answer.code == 2
    assert "error: heard 0 of 3 notifications in 0.01 s" in answer.err
    answer = run(*words)
    assert (answer.code, answer.out) == (0, "")


def test_a_refused_topic_is_an_error_with_the_servers_reason(run: Run, car: Path) -> None:
    answer = run("client", "subscribe", "--credentials", car, "--topic", "forbidden")
    assert (answer.code, answer.err) == (2, "error: forbidden: refused: no such topic\n")


def test_reports_come_from_options_or_lines(
    run: Run, edge: Edge, car: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--x-km", "1", "--y-km", "2", "--direction-deg", "90", "--speed-mps", "13")
    answer = run("client", "report", "--credentials", car, *options)
    assert (answer.code, answer.err) == (0, "reported 1\n")
    _type(monkeypatch, {"x_km": 3, "y_km": 4}, {"x_km": 5, "y_km": 6, "speed_mps": 7})
    answer = run("client", "report", "--credentials", car, "--json")
    assert [row["x_km"] for row in _rows(answer)] == [3.0, 5.0]
    places = [
        Report(item.x_km, item.y_km, item.direction_deg, item.speed_mps)
        for item in edge.site.reports
    ]
    for place in (Report(1, 2, 90, 13), Report(3, 4), Report(5, 6, 0, 7)):
        assert place in places
    _type(monkeypatch, {"x_km": 3, "y_km": 4}, {"x_km": 3})
    answer = run("client", "report", "--credentials", car)
    assert answer.code == 2
    assert "reported 1\nerror: line 2: " in answer.err
    assert run("client", "report", "--credentials", car, "--x-km", "1").code == 2
    assert (
        "a client cannot be at (nan, 0)"
        in run("client", "report", "--credentials", car, "--x-km", "nan", "--y-km", "0").err
    )


def test_echoes_are_measured(run: Run, edge: Edge, car: Path) -> None:
    answer = run("client", "echo", "--credentials", car, "--count", "3", "--size", "500", "--json")
    rows = _rows(answer)
    assert [row["echo"] for row in rows] == [1, 2, 3]
    assert all(row["round_trip_ms"] > 0 for row in rows)
    answer = run("client", "echo", "--credentials", car)
    assert answer.out.startswith(f"127.0.0.1:{edge.home.address[1]} answered in ")
    answer = run("client", "echo", "--credentials", car, "--size", "5000")
    assert (answer.code, "exceeds the limit" in answer.err) == (2, True)


def test_a_server_that_is_away_is_named(run: Run, car: Path, tmp_path: Path) -> None:
    content = json.loads(car.read_text())
    content["home"]["server_key"] = "33" * 32
    car.write_text(json.dumps(content))
    answer = run("client", "echo", "--credentials", car, "--timeout", "0.05")
    assert answer.code == 2
    assert "did not let it in" in answer.err
    assert len(answer.err.splitlines()) == 1
    assert run("client", "echo", "--credentials", tmp_path / "none.json").code == 2


@contextmanager
def _manager(code: int, answer: object) -> Iterator[tuple[str, list[Any]]]:
    """A manager that answers once: its address, and what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["Authorization"], json.loads(body)))
            found = answer(asked[-1][2]) if callable(answer) else answer
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


AUTHORITY, MANAGER = SmallAuthority(), SigningKey(b"m" * 32)


def _answer(edge: Edge, question: dict[str, Any], signer: SigningKey = MANAGER) -> dict[str, Any]:
    """Return what a manager answers whose key the authority has signed."""
    manager = ServerCredential(
        *("manager", "manager", b"x" * 32, 1, ALWAYS, MANAGER.public_key, ("clients",))
    )
    server = ServerCredential("e1", "edge", edge.home.server_key, 1, ALWAYS)
    key = bytes.fromhex(question["public_key"])
    client = ClientCredential(question["client"], key, 1, ALWAYS)
    host, port = edge.home.address
    home = {"host": host, "port": port, "credential": issue_server(AUTHORITY.key, server).hex()}
    found = {"client": "bus", "credential": issue_client(signer, client).hex(), "home": "e1"}
    return {
        "manager": issue_server(AUTHORITY.key, manager).hex(),
        "servers": {"e1": home},
        "clients": [found | {"ways": ["e1"]}],
        "more": 1,
    }


def test_a_client_enrols_and_its_credentials_work(run: Run, edge: Edge, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "authority.pub").write_text(AUTHORITY.key.public_key.hex())
    words = ("--id", "bus", "--token-file", "token", "--out", "bus.json", "--x-km", 1, "--y-km", 2)
    key = ("--authority", "authority.pub")
    with _manager(201, partial(_answer, edge)) as (url, asked):
        answer = run("client", "enrol", "--manager", url, *words, *key)
        assert answer.code == 0, answer.err
        again = run("client", "enrol", "--manager", url, *words, *key)
        assert (again.code, "exists already" in again.err) == (2, True)
    credentials = load_credentials(tmp_path / "bus.json")
    assert (credentials.x_km, credentials.home, credentials.servers) == (
        1.0,
        edge.home,
        (edge.home,),
    )
    assert credentials.authority == AUTHORITY.key.public_key
    question = {"client": "bus", "public_key": credentials.public_key.hex(), "x_km": 1, "y_km": 2}
    assert asked == [("/clients", "Bearer secret", question)]
    edge.site.enrolled[credentials.public_key] = "bus"
    assert run("client", "echo", "--credentials", "bus.json").code == 0


def test_an_answer_that_the_authority_does_not_stand_behind_is_refused(
    run: Run, edge: Edge, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    words = ("--id", "bus", "--token-file", "token", "--out", "bus.json")
    thief = SigningKey(b"t" * 32)
    for key, signer in ((thief.public_key, MANAGER), (AUTHORITY.key.public_key, thief)):
        with _manager(200, partial(_answer, edge, signer=signer)) as (url, _asked):
            answer = run("client", "enrol", "--manager", url, *words, "--authority", key.hex())
        assert (answer.code, "cannot be believed" in answer.err) == (2, True)
        assert not (tmp_path / "bus.json").exists()
    assert "--authority is needed" in run("client", "enrol", "--manager", "http://h", *words).err


@pytest.mark.parametrize(
    ("code", "reply", "problem"),
    [
        (403, b"wrong token", "answered 403: wrong token"),
        (302, b"", "answered 302"),
        (200, b"hello", "is not JSON"),
        (200, {"clients": []}, "makes no sense: Object missing required field `manager`"),
        (200, {"manager": "x", "servers": {}, "clients": []}, "makes no sense: non-hex"),
    ],
)
def test_a_manager_that_refuses_or_babbles_leaves_no_file(
    run: Run, tmp_path: Path, code: int, reply: object, problem: str
) -> None:
    (tmp_path / "token").write_text("secret")
    with _manager(code, reply) as (url, _asked):
        words = ("--manager", url, "--id", "bus", "--token-file", "token", "--out", "bus.json")
        answer = run("client", "enrol", *words, "--authority", "07" * 32)
    assert answer.code == 2
    assert problem in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "bus.json").exists()


@pytest.mark.parametrize(
    ("url", "token", "problem"),
    [
        ("http://127.0.0.1:1", "secret", "does not answer"),
        ("file:///etc", "secret", "is not an address such as"),
        ("127.0.0.1:80", "secret", "is not an address such as"),
        ("http://[", "secret", "is not an address such as"),
        ("http://127.0.0.1:1", "", "one word"),
        ("http://127.0.0.1:1", "two\nlines", "one word"),
    ],
)
def test_an_enrolment_that_cannot_be_asked_says_why(
    run: Run, tmp_path: Path, url: str, token: str, problem: str
) -> None:
    (tmp_path / "token").write_text(token)
    words = ("--manager", url, "--id", "bus", "--token-file", "token", "--out", "bus.json")
    answer = run("client", "enrol", *words, "--authority", "07" * 32)
    assert answer.code == 2
    assert problem in answer.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_subscription_cleanly(edge: Edge, car: Path) -> None:
    words = ["client", "subscribe", "--credentials", str(car), "--topic", "a"]
    command = [sys.executable, "-c", PROGRAM, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "subscribed to a\n"
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert (child.wait(timeout=30), said.strip()) == (130, "stopped")
    assert edge.do(lambda: edge.sessions.clients) == ()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_script_sees_an_acknowledgement_before_it_writes_the_next_line(car: Path) -> None:
    words = ["client", "publish", "--json", "--credentials", str(car), "--topic", "a"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number in (1, 2, 3):
            child.stdin.write('{"payload": "x"}\n')
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["sequence"] == number
        child.stdin.close()
        assert child.wait(timeout=30) == 0

from __future__ import annotations

import math
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.experiments.latency import knee, rounds
from nearcast.experiments.latency.arrivals import Heard, count
from nearcast.experiments.latency.lean_sessions import LeanSession
from nearcast.experiments.latency.pacing import Pacer
from nearcast.experiments.latency.peer_packages import PeerMissingError, install_packages
from nearcast.experiments.latency.process_usage import cpu_seconds, descendants, pss_mb
from nearcast.experiments.latency.systems import SYSTEMS
from nearcast.experiments.latency.target import Target
from nearcast.experiments.latency.verdicts import summary, verdicts
from nearcast.experiments.latency.wakeups import Wakeups
from nearcast.experiments.latency.window import WINDOW, Window
from nearcast.experiments.latency.workload import (
    HEAD,
    PAYLOAD_BYTES,
    PUBLISHERS,
    TOPICS,
    make_payload,
)


def test_every_publisher_publishes_to_every_topic() -> None:
    pairs = {(number % PUBLISHERS, number % TOPICS) for number in range(PUBLISHERS * TOPICS)}
    assert len(pairs) == PUBLISHERS * TOPICS


def test_the_window_keeps_the_head_and_looks_at_the_last_messages() -> None:
    window = Window()
    for number in range(WINDOW + 20):
        answer = window.add(make_payload(5, number))
        assert answer[: HEAD.size] == HEAD.pack(5, number)
        assert len(answer) == PAYLOAD_BYTES
    values = [number * 7919 % 1000 / 10 for number in range(20, WINDOW + 20)]
    mean, variance, spread, _ = struct.unpack_from(">dddI", answer, HEAD.size)
    assert mean == pytest.approx(sum(values) / WINDOW)
    assert variance == pytest.approx(sum((one - mean) ** 2 for one in values) / WINDOW)
    assert spread == pytest.approx(max(values) - min(values))


def test_a_notification_counts_once_per_subscriber() -> None:
    first = Heard([HEAD.pack(0, 3), HEAD.pack(0, 3), HEAD.pack(0, 99)], [10**6, 9 * 10**6, 0])
    second = Heard(
        [HEAD.pack(10**6, 3), HEAD.pack(0, 4)], [3 * 10**6]
    )  # one is not read to its end
    counted = count([first, second], 0, 10)
    assert sorted(counted.delays_ms) == [1.0, 2.0]
    assert counted.repeated == 1
    assert counted.percentile_ms(0.5) == 1.0
    assert math.isnan(count([Heard()], 0, 10).percentile_ms(0.5))


class Echoing:
    """Connections to a system that answers at once."""

    def __init__(self) -> None:
        self.heard = [Heard()]
        self._near, self._far = socket.socketpair()
        self.sockets = [self._near]
        self.waiting: list[bytes] = []

    def publish(self, number: int, payload: bytes) -> None:
        self.waiting.append(payload)

    def flush(self) -> None:
        self._far.sendall(b"".join(self.waiting))
        self.waiting.clear()

    def read(self, source: socket.socket) -> None:
        data = source.recv(PAYLOAD_BYTES, socket.MSG_WAITALL)
        self.heard[0].heads.append(data[: HEAD.size])
        self.heard[0].at_ns.append(0)

    def tick(self) -> None: ...

    def unacknowledged(self) -> int:
        return 0

    def close(self) -> None:
        self._near.close()
        self._far.close()


def test_send_times_are_fixed_in_advance() -> None:
    connections = Echoing()
    pacer = Pacer(connections)
    late_ns = pacer.send(100, 50, 10_000)
    assert pacer.wait(lambda: len(connections.heard[0].heads) == 50, 60.0)
    assert not pacer.wait(lambda: False, 0.0)
    sent = [HEAD.unpack(head) for head in connections.heard[0].heads]
    assert [number for _, number in sent] == list(range(100, 150))
    assert {after - before for (before, _), (after, _) in pairwise(sent)} == {100_000}
    assert len(late_ns) == 50
    assert min(late_ns) >= 0
    connections.close()


def test_processes_are_counted_with_their_descendants() -> None:
    # json.tool waits for its input
    child = subprocess.Popen(
        [sys.executable, "-m", "json.tool"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        assert child.pid in descendants(os.getpid())
        used = cpu_seconds({"me": os.getpid()})
        assert used["me"] > 0
        assert used["me: tool"] >= 0
        assert pss_mb(os.getpid()) > 1
    finally:
        child.communicate(b"[]")
    assert cpu_seconds({"gone": child.pid}) == {"gone": 0}


def made(system: str, rate: int, p50_ms: float, p99_ms: float, **more: Any) -> dict[str, Any]:
    return {
        "system": system,
        "rate": rate,
        "p50_ms": p50_ms,
        "p99_ms": p99_ms,
        "p999_ms": p99_ms,
        "lost": 0,
        "cpu_us_per_message": 200.0,
        "cpu_us_by_process": {"edge": 200.0},
        "unacknowledged": 0,
        "repeated": 0,
        "sent": 100,
        "load_cpu_us_per_message": 90.0,
        "load_cpu_percent": 9.0,
        "achieved_hz": float(rate),
        "send_late_p99_ms": 0.1,
        "stolen_percent": None,
        **more,
    }


def test_rows_are_medians_and_losses_add_up() -> None:
    runs = [
        made("nearcast", 100, 1.0, 9.0, lost=2),
        made("nats", 100, 2.0, 4.0),
        made("nearcast", 100, 3.0, 5.0),
        made("nearcast", 100, 2.0, 7.0, lost=1),
    ]
    row, peer = rounds.to_rows(runs)
    assert (row["system"], row["rate"], row["rounds"]) == ("nearcast", 100, 3)
    assert (row["p50_ms"], row["p99_ms"], row["lost"]) == (2.0, 7.0, 3)
    assert (row["best_p50_ms"], row["best_p99_ms"]) == (1.0, 5.0)
    assert row["acknowledged"] == 300
    assert row["stolen_percent"] is None
    assert peer["acknowledged"] is None
    assert list(peer) == list(row)


def test_goals_are_judged_against_the_best_peer_of_each_figure() -> None:
    rows = rounds.to_rows(
        [
            made("nearcast", 1000, 0.5, 2.0),
            made("nearcast-child", 1000, 0.6, 5.0),
            made("nats", 1000, 1.0, 4.0),
            made("zenoh", 1000, 2.0, 1.0),
        ]
    )
    knees = [{"system": "nearcast", "held_rate": 7000}, {"system": "zenoh", "held_rate": 8000}]
    found = {one.goal: one for one in verdicts(rows, knees)}
    assert found["1,000/s: p50 / best peer's, beyond"].is_reached
    assert found["1,000/s: p99 / best peer's"].measured == 2.0
    assert str(found["1,000/s: p99 / best peer's"]).startswith("MISSED: 1,000/s: p99")
    assert not found["1,000/s: p99 with processor in a child / inline"].is_reached
    assert found["highest rate held / best peer's"].is_reached
    first, *_ = summary(rows)
    assert (first["p50 / peer"], first["p99 / peer"]) == (0.5, 2.0)
    assert summary(rows)[2]["p50 / peer"] is None


@contextmanager
def _missing() -> Iterator[Target]:
    raise PeerMissingError("no broker here")
    yield


def test_a_peer_that_cannot_be_had_is_left_out_with_one_line(
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SYSTEMS, "nats", _missing)
    answer = run("bench", "latency", "--systems", "nats", "--rounds", "2", "--json")
    assert answer.code == 0
    assert answer.json == {"rows": []}
    assert answer.err == ("warning: nats is left out, it cannot be installed: no broker here\n")


@pytest.mark.parametrize(
    ("breaks_above_hz", "holds_long_hz", "held", "broke", "runs"),
    [
        (5000, 5000, 4500, 5511, 8),
        (5000, 4000, 3674, 4500, 9),
        (1000, 1000, 889, 1089, 8),
        (50, 50, 0, 117, 16),
    ],
)
def test_the_knee_is_the_highest_rate_that_is_held_long(
    monkeypatch: pytest.MonkeyPatch,
    breaks_above_hz: int,
    holds_long_hz: int,
    held: int,
    broke: int,
    runs: int,
) -> None:
    asked = []

    @contextmanager
    def running() -> Iterator[Target]:
        yield Target({}, {})

    def answer(_module: str, question: dict[str, Any]) -> dict[str, Any]:
        rate_hz, is_long = question["rate_hz"], question["seconds"] >= 10
        asked.append(rate_hz)
        limit_hz = holds_long_hz if is_long else breaks_above_hz
        row = made("", rate_hz, 1.0, 60.0 if rate_hz > limit_hz else 5.0)
        del row["system"], row["rate"], row["cpu_us_by_process"], row["cpu_us_per_message"]
        return {**row, "cpu_s": {}, "load_cpu_s": 1.0, "seconds": 10.0, "stolen_s": None}

    monkeypatch.setitem(SYSTEMS, "nats", running)
    monkeypatch.setattr(rounds, "ask_worker", answer)
    (found,) = knee.find_knees(["nats"], skip=lambda system, reason: pytest.fail(reason))
    assert (found["held_rate"], found["broke_rate"], found["broke_p99_ms"]) == (held, broke, 60.0)
    assert len(asked) == runs


def test_a_knee_is_shown_beside_the_best_peers() -> None:
    ends = {"held_p99_ms": 9.0, "broke_rate": None, "broke_p99_ms": None, "broke_lost": None}
    knees = [
        {"system": system, "held_rate": rate, **ends}
        for system, rate in (("nearcast", 6000), ("nats", 4000), ("zenoh", 8000))
    ]
    assert [row["rate / best peer"] for row in knee.table(knees)] == [0.75, 0.5, 1.0]
    assert knee.table(knees[:1])[0]["rate / best peer"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("latency", "--systems", "nearcast,carrier-pigeon"),
        ("latency", "--rates", "100,fast"),
        ("fanout", "--subscribers", "0"),
        ("fanout", "--ways", "smoke"),
    ],
)
def test_wrong_options_are_refused(run: Run, arguments: tuple[str, ...]) -> None:  # noqa: F811
    answer = run("bench", *arguments)
    assert answer.code == 2
    assert "error: --" in answer.err


@pytest.mark.slow
def test_a_short_run_delivers_and_acknowledges_everything(run: Run) -> None:  # noqa: F811
    answer = run(
        *("bench", "latency", "--systems", "nearcast,nearcast-child", "--two-edges"),
        *("--rates", "40", "--seconds", "0.5", "--rounds", "1", "--json"),
    )
    assert answer.code == 0, answer.err
    rows = answer.json["rows"]
    assert [row["system"] for row in rows] == ["nearcast", "nearcast-child", "nearcast-two-edges"]
    for row in rows:
        assert (row["rate"], row["rounds"], row["lost"]) == (40, 1, 0)
        assert row["acknowledged"] == row["sent"] == 20
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
        assert row["cpu_us_per_message"] >= 0


@pytest.mark.slow
def test_a_message_reaches_all_subscribers(run: Run) -> None:  # noqa: F811
    answer = run("bench", "fanout", "--subscribers", "1,60", "--messages", "2", "--json")
    assert answer.code == 0, answer.err
    ways = (("unicast", 1), ("unicast", 60), ("group", 60))  # one is never told by group
    for row, (way, subscribers) in zip(answer.json["rows"], ways, strict=True):
        assert (row["way"], row["subscribers"], row["lost"]) == (way, subscribers, 0)
        assert 0 < row["first_ms"] <= row["last_ms"]
        assert row["group_share"] > 0.5 if way == "group" else row["group_share"] == 0
        assert row["datagrams_per_message"] >= subscribers or way == "group"
        assert row["bound_cpu_us_per_notification"] > 0
    assert answer.json["rows"][2]["datagrams_per_message"] < 30


@pytest.mark.slow
def test_a_program_hears_everything_and_pays_for_it(run: Run) -> None:  # noqa: F811
    answer = run("bench", "sdk", "--rates", "100,200", "--seconds", "0.3", "--json")
    assert answer.code == 0, answer.err
    for row, rate in zip(answer.json["rows"], (100, 200), strict=True):
        assert (row["rate"], row["sent"], row["lost"]) == (rate, 3 * rate // 10, 0)
        assert row["cpu_us_per_notification"] > 0
        assert row["bound_cpu_us_per_notification"] > 0


@pytest.mark.slow
def test_idle_sessions_stay(run: Run) -> None:  # noqa: F811
    answer = run("bench", "sessions", "--sessions", "250", "--seconds", "0.3", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.json["rows"]
    assert (row["sessions"], row["disconnections"]) == (250, 0)
    assert row["idle_mb"] > 0


@pytest.mark.slow
def test_echoes_are_printed_as_rows(run: Run) -> None:  # noqa: F811
    answer = run("bench", "echo", "--rates", "20", "--seconds", "0.5", "--no-knee", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.json["rows"]
    assert (row["rate_hz"], row["sent"], row["returned"]) == (20, 10, 10)


def test_packages_that_cannot_be_installed_are_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PeerMissingError, match="file/nearcast/peers-"):
        install_packages.__wrapped__()


class Sleeper:
    """A session that is due at some times, and after them never."""

    def __init__(self, *due: float) -> None:
        self.due = [*due, math.inf]
        self.wakeup_s = math.inf
        self.ran: list[float] = []

    def next_wakeup(self) -> float:
        return self.due[0]

    def run(self, now: float) -> None:
        self.ran.append(now)
        del self.due[0]


def test_sessions_run_when_they_are_due() -> None:
    early, late = Sleeper(1.0, 4.0), Sleeper(3.0)
    wakeups = Wakeups()
    wakeups.run_due(cast("list[LeanSession]", [early, late]), 0.5)
    assert early.ran == late.ran == []
    wakeups.run_due([], 1.5)
    assert (early.ran, late.ran) == ([1.5], [])
    late.due[0] = 2.0  # something happened to it
    wakeups.run_due(cast("list[LeanSession]", [late]), 2.5)
    assert late.ran == [2.5]
    wakeups.run_due([], 9.0)
    assert (early.ran, late.ran) == ([1.5, 9.0], [2.5])

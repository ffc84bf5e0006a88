"""The bench of streams: kill -9 of the query loses and doubles nothing; what is wrong is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.experiments.stream import run as bench
from nearcast.experiments.stream.points import Case
from nearcast.experiments.stream.run import cases
from nearcast.testing.local_kafka import LocalKafka
from small_site.making import until


def test_a_query_that_is_killed_loses_and_doubles_no_alert(kafka: LocalKafka) -> None:
    wanted = [Case("consumer", 100), Case("micro-batch", 50, kills=1)]
    consumer, stream = bench.run(wanted, 1.0, 1, lambda _: None, kafka)
    for point in (consumer, stream):
        assert (point.lost, point.doubled, point.wrong) == (0, 0, 0)
        assert point.alerts > 5
        assert point.p50_ms is not None
    assert (stream.mode, stream.rate, stream.kills) == ("micro-batch", 50, 1)
    assert (stream.table_lost, stream.table_doubled) == (0, 0)
    assert (consumer.table_lost, consumer.table_doubled) == (None, None)


def test_echoes_and_alerts_go_through_kafka_from_client_to_client_once(kafka: LocalKafka) -> None:
    modes = ("echo", "site-echo", "site-alert")
    points = list(bench.run([Case(mode, 20) for mode in modes], 1.0, 1, lambda _: None, kafka))
    assert [point.mode for point in points] == list(modes)
    for point in points:
        assert (point.lost, point.doubled, point.wrong) == (0, 0, 0)
        assert point.alerts == point.events > 20
        assert point.p50_ms is not None


def test_a_spark_without_real_time_mode_is_said_to_be_one(
    kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "has_real_time_mode", lambda: False)
    (point,) = bench.run([Case("real-time", 10)], 1.0, 1, lambda _: None, kafka)
    assert (point.p50_ms, point.note) == (None, "this Spark does not offer it to Python")


def test_cases_are_each_mode_at_each_rate_and_one_with_kills() -> None:
    assert cases(["a", "b"], [1, 2], 3, 9) == [
        *(Case("a", 1), Case("a", 2), Case("b", 1), Case("b", 2)),
        Case("a", 9, 3),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--modes", "fast"], "no mode 'fast'"),
        (["--rates", "30000"], "at most 20,000"),
        (["--rates", "x"], "is no list of whole numbers"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    run: Run,  # noqa: F811
    words: list[str],
    said: str,
) -> None:
    answer = run("bench", "stream", *words)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_cut_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from nearcast.cli.main import main; main()"]
    command += ["bench", "stream", "--modes", "consumer", "--rates", "10", "--kills", "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as cut:
        until(lambda: {"bench", "events", "kafka.Kafka"} <= _running(tmp_path), "all run", 120.0)
        cut.send_signal(number)
        said = cut.communicate()[1]
    until(lambda: not _running(tmp_path), "all have ended")
    if number != signal.SIGKILL:
        assert (cut.returncode, said.strip()) == (130, b"stopped")
        assert list(tmp_path.iterdir()) == []


def _running(folder: Path) -> set[str]:
    """Return words of the commands of all processes whose temporary files are in a folder."""
    words: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                words |= set((process / "cmdline").read_bytes().decode().split("\0"))
    return words

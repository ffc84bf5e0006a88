"""The bench of streams: kill -9 of the query loses and doubles nothing; what is wrong is told."""

from __future__ import annotations

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.experiments.stream import run as bench
from nearcast.experiments.stream.run import Case, cases
from nearcast.testing.local_kafka import LocalKafka


def test_a_query_that_is_killed_loses_and_doubles_no_alert(kafka: LocalKafka) -> None:
    wanted = [Case("consumer", 100), Case("micro-batch", 50, kills=1)]
    consumer, stream = bench.run(wanted, 1.0, 1, lambda _: None, kafka)
    for point in (consumer, stream):
        assert (point.lost, point.doubled, point.wrong) == (0, 0, 0)
        assert point.alerts > 5
        assert point.p50_ms is not None
    assert (stream.mode, stream.rate, stream.kills) == ("micro-batch", 50, 1)


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

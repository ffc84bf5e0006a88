"""From an event in Kafka to its alert in Kafka: delays at a rate, and what kills lose or double."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import uuid4

from nearcast.errors import NearcastError
from nearcast.experiments.percentiles import percentile
from nearcast.experiments.stream.alert_watch import AlertWatch
from nearcast.experiments.stream.load import EventLoad, expected_alerts, expected_emergencies
from nearcast.experiments.stream.subjects import REAL_TIME, Subject, has_real_time_mode
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.testing.local_kafka import LocalKafka

__all__ = ["Case", "StreamPoint", "cases", "run"]

_PARTITIONS = 2
_START_WITHIN_S = 300.0
_CATCH_UP_S = 180.0
_LOOK_S = 0.05
_WARM_RATE = 20
"""Events per second until the first alert: they must not pile up while a JVM starts."""
_WARM_S = 8.0
"""At the rate of the case, before it is measured: the JVM compiles."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement."""

    mode: str
    rate: int
    kills: int = 0


@dataclass(frozen=True, slots=True)
class StreamPoint:
    """What came of it."""

    mode: str
    rate: int
    """Events per second, a twentieth of which are emergencies."""
    p50_ms: float | None
    p99_ms: float | None
    """From sending an event to reading its alert; with kills, the restarts are in it."""
    lost: int
    doubled: int
    wrong: int
    """Alerts that the event broker in plain Python does not make of the same events."""
    alerts: int
    events: int
    kills: int = 0
    note: str = ""


def cases(modes: Sequence[str], rates: Sequence[int], kills: int, kill_rate: int) -> list[Case]:
    """Return what is measured: each mode at each rate, and the first mode with kills."""
    found = [Case(mode, rate) for mode in modes for rate in rates]
    return found + ([Case(modes[0], kill_rate, kills)] if kills else [])


def run(
    wanted: Sequence[Case],
    seconds: float,
    seed: int,
    begin: Callable[[str], None],
    kafka: LocalKafka | None = None,
) -> Iterator[StreamPoint]:
    """Measure, each case with topics of its own in one Kafka; None: one that is started for it."""
    with LocalKafka() if kafka is None else nullcontext(kafka) as broker:
        for case in wanted:
            said = f", {case.kills} kills" if case.kills else ""
            begin(f"{case.mode}, {case.rate:,}/s{said}")
            if case.mode == REAL_TIME and not has_real_time_mode():
                note = "this Spark does not offer it to Python"
                yield StreamPoint(case.mode, case.rate, None, None, 0, 0, 0, 0, 0, note=note)
                continue
            settings = KafkaSettings(
                broker.bootstrap, f"bench{uuid4().hex[:8]}", events=("road/#",)
            )
            create_topics(settings, _PARTITIONS)
            with tempfile.TemporaryDirectory(prefix="nearcast-stream-") as folder:
                yield _measure(case, settings, Path(folder), seconds, seed)


def _measure(
    case: Case, settings: KafkaSettings, folder: Path, seconds: float, seed: int
) -> StreamPoint:
    rng = Random(seed)
    with (
        AlertWatch(settings) as watch,
        Subject(case.mode, settings, folder) as subject,
        EventLoad(settings, _WARM_RATE, seed) as load,
    ):
        _await_alert(watch, subject, 0)
        load.rate_hz = case.rate
        _wait(_WARM_S, subject)
        # what was sent until now counts as lost or doubled only
        since_us = time.time_ns() // 1000
        if case.kills:
            for _ in range(case.kills):
                _wait(rng.uniform(0.2, 3.0), subject)
                subject.kill()
                subject.start()
                _await_alert(watch, subject, len(watch.delays))
        _wait(seconds if not case.kills else 1.0, subject)
        load.stop()
        if load.failed:
            raise NearcastError(f"Kafka did not take events: {load.failed[0]}")
        is_sql = case.mode == REAL_TIME
        expected = (
            expected_emergencies(load.records)
            if is_sql
            else expected_alerts(load.records, settings)
        )
        _until(lambda: expected <= watch.seen.keys(), subject, _CATCH_UP_S)
        _wait(2.0, subject)  # alerts that come twice
        seen = watch.seen.copy()
        delays_ms = watch.delays_ms(since_us)
    return StreamPoint(
        case.mode,
        case.rate,
        percentile(delays_ms, 0.5) if delays_ms else None,
        percentile(delays_ms, 0.99) if delays_ms else None,
        lost=len(expected - seen.keys()),
        doubled=sum(count - 1 for count in seen.values()),
        wrong=len(seen.keys() - expected),
        alerts=len(expected),
        events=len(load.records),
        kills=case.kills,
        note="emergencies only, without the event broker" if is_sql else "",
    )


def _await_alert(watch: AlertWatch, subject: Subject, after: int) -> None:
    if not _until(lambda: len(watch.delays) > after, subject, _START_WITHIN_S):
        raise NearcastError(f"no alert came within {_START_WITHIN_S:.0f} s")


def _wait(seconds: float, subject: Subject) -> None:
    _until(lambda: False, subject, seconds)


def _until(condition: Callable[[], bool], subject: Subject, within_s: float) -> bool:
    """Wait until something is so, or the time is over; tell which."""
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= end_s:
            return False
        subject.check()
        time.sleep(_LOOK_S)
    return True

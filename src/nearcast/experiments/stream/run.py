"""From an event in Kafka to its alert in Kafka: delays at a rate, and what kills lose or double."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from uuid import uuid4

from nearcast.errors import NearcastError
from nearcast.experiments.percentiles import percentile
from nearcast.experiments.stream.alert_watch import AlertWatch
from nearcast.experiments.stream.load import EventLoad, expected_alerts, expected_emergencies
from nearcast.experiments.stream.points import Case, StreamPoint
from nearcast.experiments.stream.site_path import measure_site_path
from nearcast.experiments.stream.subjects import (
    ECHO,
    MICRO_BATCH,
    OF_SITES,
    REAL_TIME,
    Subject,
    has_real_time_mode,
    out_of,
)
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.batch_files import rows_after
from nearcast.testing.local_kafka import LocalKafka

__all__ = ["cases", "run"]

_PARTITIONS = 2
_START_WITHIN_S = 300.0
_CATCH_UP_S = 180.0
_LOOK_S = 0.05
_WARM_RATE = 20
"""Events per second until the first alert: they must not pile up while a JVM starts."""
_WARM_S = 8.0
"""At the rate of the case, before it is measured: the JVM compiles."""
_NOTES = {
    REAL_TIME: "emergencies only, without the event broker",
    ECHO: "all events, as they are",
}


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
            with tempfile.TemporaryDirectory(prefix="nearcast-stream-") as text:
                folder = Path(text)
                yield (
                    measure_site_path(case, settings, folder, seconds)
                    if case.mode in OF_SITES
                    else _measure(case, settings, folder, seconds, seed)
                )


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
        if case.mode == ECHO:
            expected = {f"0/{record.identity}" for record in load.records}
        elif case.mode == REAL_TIME:
            expected = expected_emergencies(load.records)
        else:
            expected = expected_alerts(load.records, settings)
        _until(lambda: expected <= watch.seen.keys(), subject, _CATCH_UP_S)
        _wait(2.0, subject)  # alerts that come twice
        seen = watch.seen.copy()
        delays_ms = watch.delays_ms(since_us)
        table = _table(folder) if case.mode == MICRO_BATCH else None
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
        table_lost=None if table is None else len(expected - table.keys()),
        table_doubled=None if table is None else table.total() - len(table),
        note=_NOTES.get(case.mode, ""),
    )


def _table(folder: Path) -> Counter[str]:
    """Return how often each alert is in the table that a stream writes."""
    return Counter(row["id"] for row in rows_after(out_of(folder) / "alerts", -1))


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

"""What Spark learns from a window of a site's log is what plain loops find in its rows."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from nearcast.errors import PipelineError
from nearcast.pipeline.recent_traffic import learn_traffic, measure_delay
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.server.log_rows import NotificationRow, PublicationRow
from pipeline.test_site_log import HOMES, random_site_rows, write_site_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_S = 1_700_000_000.0
SINCE_S, UNTIL_S = START_S + 20.0, START_S + 45.0


def notification(number: int, clients: tuple[str, ...], delay_us: int) -> NotificationRow:
    at_us = int((START_S + number) * 1e6)
    return NotificationRow(
        topic="t1", publisher="c1", epoch=1, sequence=number, part=0, clients=clients, server="e1",
        published_us=at_us - delay_us, received_us=0, processing_us=0, processed_us=0,
        notified_us=at_us, size=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[PublicationRow]:
    return random_site_rows(400)


@pytest.fixture(scope="module")
def log(rows: list[PublicationRow], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recent") / "log"
    write_site_log(folder, rows)
    told = [
        notification(10, ("c1",), 900_000),
        notification(25, ("c1", "c2"), 30_000),
        notification(30, ("c3",), 60_000),
        notification(31, ("c4",), -5_000),  # a publisher's clock is wrong
    ]

    async def write() -> None:
        events = EventLog(EventLogSettings(str(folder), HOMES[0]))
        events.start()
        events.add([], told)
        await events.close()

    asyncio.run(write())
    return folder


def test_a_window_of_the_log_is_that_of_plain_loops(
    spark: SparkSession, log: Path, rows: list[PublicationRow]
) -> None:
    found = learn_traffic(spark, log, SINCE_S, UNTIL_S)
    inside = [row for row in rows if SINCE_S <= row.time_us / 1e6 <= UNTIL_S]
    published: dict[tuple[str, str], int] = {}
    for row in inside:
        if row.action == "publish" and row.topic is not None:
            published[row.topic, row.client] = published.get((row.topic, row.client), 0) + 1
    assert found.published == published
    # who listens said so perhaps long before the window
    words = {
        (row.topic, row.client): row.action == "subscribe"
        for row in rows
        if row.action in ("subscribe", "unsubscribe") and row.time_us / 1e6 <= UNTIL_S
    }
    assert found.subscriptions == words
    assert found.places_km.keys() == {row.client for row in inside}
    for client, (x_km, y_km) in found.places_km.items():
        last = max((row for row in inside if row.client == client), key=lambda row: row.time_us)
        assert (x_km, y_km) == pytest.approx((last.x_km, last.y_km))
    assert set(found.notified) == {("t1", "c1"), ("t1", "c2"), ("t1", "c3"), ("t1", "c4")}
    assert found.deliveries == 3
    assert found.delay_ms == pytest.approx((30 + 30 + 60) / 3)
    assert measure_delay(spark, log, START_S + 28, UNTIL_S) == pytest.approx(60.0)
    assert measure_delay(spark, log, START_S + 40, UNTIL_S) is None


def test_words_that_are_known_need_not_be_read_again(spark: SparkSession, log: Path) -> None:
    for file in (log / "publications").iterdir():
        os.utime(file, (UNTIL_S, UNTIL_S))
    known = {("t9", "c9"): True}
    later = learn_traffic(
        spark, log, SINCE_S, UNTIL_S, words_since_s=UNTIL_S - 1, known_words=known
    )
    assert later.subscriptions["t9", "c9"]
    with pytest.raises(PipelineError, match="the event log is empty"):
        learn_traffic(spark, log, UNTIL_S + 1, UNTIL_S + 60, words_since_s=UNTIL_S + 1)


def test_bad_rows_and_files_are_counted_and_a_silent_window_is_named(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    before = learn_traffic(spark, log, SINCE_S, UNTIL_S)
    copy = tmp_path / "log"
    shutil.copytree(log, copy)
    (copy / "publications" / "torn.parquet").write_bytes(b"PAR1 and no more")
    file = min((copy / "publications").glob("e1-*.parquet"))
    row = {**parquet.read_table(file).slice(0, 1).to_pylist()[0], "action": "publish"}
    bad = [
        {**row, "time": SINCE_S + 1, "client": "", "sequence": 1},
        {**row, "time": SINCE_S + 2, "client": "c1", "topic": "t1", "x_km": float("nan")},
    ]
    parquet.write_table(
        pa.Table.from_pylist(bad, parquet.read_schema(file)), copy / "publications" / "x.parquet"
    )
    parquet.write_table(pa.table({"time": ["noon"]}), copy / "publications" / "y.parquet")
    found = learn_traffic(spark, copy, SINCE_S, UNTIL_S)
    assert found.bad_rows == before.bad_rows + 4  # the torn file, "" twice, the place
    assert found.places_km == before.places_km
    with pytest.raises(PipelineError, match=r"nothing was published in the last 60 s; the log"):
        learn_traffic(spark, log, UNTIL_S + 1e6, UNTIL_S + 1e6 + 60)
    with pytest.raises(PipelineError, match="the event log is empty"):
        learn_traffic(spark, tmp_path / "none", SINCE_S, UNTIL_S)

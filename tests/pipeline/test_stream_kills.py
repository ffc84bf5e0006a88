"""A stream that is killed by SIGKILL, in the middle of a batch too, has each row once in its tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as parquet

from nearcast.experiments.stream.load import EventLoad, expected_alerts
from nearcast.experiments.stream.subjects import MICRO_BATCH, Subject, out_of
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_records import read_publication
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.batch_files import rows_after
from nearcast.testing.local_kafka import LocalKafka
from small_site.making import until

TABLES = ("--members", "--every", "100ms")


def test_tables_have_each_row_once_when_their_stream_is_killed(
    kafka: LocalKafka, tmp_path: Path
) -> None:
    settings = KafkaSettings(kafka.bootstrap, f"k{uuid4().hex[:8]}", events=("road/#",))
    create_topics(settings, partitions=2)
    out = out_of(tmp_path)
    latest, alerts = out / "traffic" / "latest", out / "alerts"

    def half_made() -> bool:
        return any((out / "traffic").glob(".0*"))

    def counted() -> Counter[tuple[str, str]]:
        # older versions stay for readers that have found their way there
        rows = parquet.read_table(latest.resolve() / "members", partitioning=None).to_pylist()
        return Counter({(row["topic"], row["client"]): row["messages"] for row in rows})

    with (
        EventLoad(settings, 40, 1) as load,
        Subject(MICRO_BATCH, settings, tmp_path, more=TABLES) as stream,
    ):
        until(lambda: latest.exists() and half_made(), "it makes a second version", 120)
        stream.kill()  # a version is half made
        before = latest.resolve()
        stream.start()
        until(lambda: latest.resolve() != before, "it goes on", 120)
        told = len(rows_after(alerts, -1))
        until(lambda: len(rows_after(alerts, -1)) > told, "alerts", 120)
        stream.kill()  # alerts were just written: their batch is not committed
        stream.start()
        load.stop()
        wanted = Counter(
            (said.topic or "", said.client)
            for said in (read_publication(b"1", one.value) for one in load.records)
        )
        until(lambda: counted().total() >= wanted.total(), "all is counted", 120)
        expected = expected_alerts(load.records, settings)
        until(lambda: len(rows_after(alerts, -1)) >= len(expected), "all alerts", 120)
        stream.check()
    assert counted() == wanted
    assert sorted(row["id"] for row in rows_after(alerts, -1)) == sorted(expected)

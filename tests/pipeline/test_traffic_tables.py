"""The tables of traffic when a batch comes once more, as after a kill between table and checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as parquet

from nearcast.pipeline.stream.stream_folder import StreamFolder
from nearcast.pipeline.stream.stream_settings import TrafficSettings
from nearcast.pipeline.stream.traffic_query import TrafficSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "topic string, client string, action string, time_s double, x_km double, y_km double"


def test_a_batch_that_comes_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    def published(*times_s: float) -> DataFrame:
        rows = [("road", "car", "publish", one, one, 0.0) for one in times_s]
        return spark.createDataFrame(rows, ROWS)

    def sink() -> TrafficSink:
        return TrafficSink(StreamFolder(tmp_path), TrafficSettings())

    def seen() -> tuple[int, float]:
        latest = (tmp_path / "traffic" / "latest").resolve()
        (member,) = parquet.read_table(latest / "members", partitioning=None).to_pylist()
        (client,) = parquet.read_table(latest / "clients", partitioning=None).to_pylist()
        return member["messages"], client["x_km"]

    first, second = published(1.0, 2.0), published(3.0)
    sink()(first, 0)
    assert seen() == (2, 2.0)
    sink()(first, 0)  # of a process that was killed before Spark noted the batch
    assert seen() == (2, 2.0)
    sink()(second, 1)
    sink()(second, 1)
    assert seen() == (3, 3.0)

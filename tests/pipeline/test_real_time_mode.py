"""Spark's real-time mode: what the pages say of it. When a test fails, it can do more than they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from nearcast.experiments.stream.subjects import has_real_time_mode
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.testing.local_kafka import LocalKafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def map_in_arrow(rows: DataFrame) -> DataFrame:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return rows.mapInArrow(same, "key binary, value binary")


def udf(rows: DataFrame) -> DataFrame:
    text = sf.udf(lambda value: str(value), "string")
    return rows.select("key", text("value").alias("value"))


def aggregate(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy("key").count()
    return counted.select("key", sf.col("count").cast("string").alias("value"))


@pytest.mark.parametrize("operator", [map_in_arrow, udf, aggregate])
def test_it_takes_neither_python_nor_state(
    spark: SparkSession,
    kafka: LocalKafka,
    tmp_path: Path,
    operator: Callable[[DataFrame], DataFrame],
) -> None:
    assert has_real_time_mode()
    settings = KafkaSettings(kafka.bootstrap, f"r{uuid4().hex[:8]}")
    create_topics(settings)
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.topic("events"))
        .load()
        .select("key", "value")
    )
    mode: dict[str, Any] = {"realTime": "5 seconds"}  # its types do not know it yet
    options = {
        "kafka.bootstrap.servers": settings.bootstrap,
        "topic": settings.topic("alerts"),
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }
    writer = operator(rows).writeStream.format("kafka").outputMode("update").options(**options)
    query = writer.trigger(**mode).start()  # what is wrong shows when it runs
    try:
        with pytest.raises(PySparkException, match="NOT_IN_ALLOWLIST"):
            query.awaitTermination(30)
    finally:
        query.stop()

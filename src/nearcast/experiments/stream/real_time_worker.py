"""Emergencies from Kafka to Kafka in Spark's real-time mode: SQL only, nothing is remembered.

``python -m nearcast.experiments.stream.real_time_worker BOOTSTRAP PREFIX CHECKPOINT``. This mode
takes no Python operator, so that bins and predicates cannot run in it: what it shows is how long
Kafka - Spark - Kafka takes.
"""

from __future__ import annotations

import sys
from typing import Any

from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.maven_jars import CONNECTOR, find_jars
from nearcast.pipeline.session import SparkSettings, open_session

_CHECKPOINT_EVERY = "5 seconds"
_CORES = 4
"""Each partition of the source needs one as long as the query runs."""


def main(bootstrap: str, prefix: str, checkpoint: str) -> None:
    """Run until killed."""
    from pyspark.sql import functions as sf

    kafka = KafkaSettings(bootstrap, prefix)
    jars = ",".join(map(str, find_jars(CONNECTOR)))
    settings = SparkSettings(f"local[{_CORES}]", "real-time", ui=False, conf={"spark.jars": jars})
    with open_session(settings) as spark:
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", kafka.topic("events"))
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load()
        )
        text = sf.col("value").cast("string")
        payload = sf.get_json_object(text, "$.payload")
        identity = sf.expr("string(get(filter(headers, one -> one.key = 'id'), 0).value)")
        said = sf.struct(
            sf.get_json_object(text, "$.topic").alias("topic"),
            payload.alias("payload"),
            sf.get_json_object(text, "$.time_us").cast("long").alias("time_us"),
            identity.alias("cause"),
        )
        told = sf.array(
            sf.struct(sf.lit("v").alias("key"), sf.lit(bytearray(b"1")).alias("value")),
            sf.struct(
                sf.lit("id").alias("key"),
                sf.concat(sf.lit("0/"), identity).cast("binary").alias("value"),
            ),
        )
        event = sf.get_json_object(sf.unbase64(payload).cast("string"), "$.event")
        alerts = rows.where(event == "emergency").select(
            "key", sf.to_json(said).alias("value"), told.alias("headers")
        )
        writer = alerts.writeStream.queryName("real-time").format("kafka").outputMode("update")
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": kafka.topic("alerts"),
            "includeHeaders": "true",
            "checkpointLocation": checkpoint,
        }
        mode: dict[str, Any] = {"realTime": _CHECKPOINT_EVERY}  # its types do not know it yet
        writer.options(**options).trigger(**mode).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

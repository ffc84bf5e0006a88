"""What a site logs as streams of Spark: from Kafka, or from the files of its event log.

Both are brought into the same form, so that a query does not know which one it reads: `read_events`
gives records as Kafka has them, `read_traffic` what clients did.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from nearcast.links.kafka_records import VERSION
from nearcast.pipeline.stream.progress_lines import REFUSED
from nearcast.pipeline.stream.stream_settings import StreamSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["read_events", "read_traffic"]

_FILES_AT_ONCE = 100
_PUBLICATIONS = (
    "topic string, client string, time double, x_km double, y_km double, action string,"
    " sequence long, epoch long, durable boolean, server string, payload binary"
)
_NOTIFICATIONS = "topic string, clients array<string>, notified_us long"
_RECORD = (
    "topic string, client string, time_us long, x_km double, y_km double, action string,"
    " clients array<string>, notified_us long"
)


def read_events(spark: SparkSession, settings: StreamSettings) -> DataFrame:
    """Return publications to the topics of events.

    Columns: topic, file and position (order within the topic, or within what one server logged),
    version, id, value, arrived.
    """
    if settings.log is None:
        rows = _kafka(spark, settings, ("events",), settings.most_rows).select(
            sf.expr("string(key)").alias("topic"),
            sf.lit("").alias("file"),
            sf.col("offset").alias("position"),
            _header("v").alias("version"),
            sf.expr(f"string({_HEADER.format('id')}.value)").alias("id"),
            "value",
        )
    else:
        rows = _files(spark, settings.log, "publications", _PUBLICATIONS)
        rows = rows.withColumn("id", _identity()).withColumn("time", _not_ahead("time"))
        rows = rows.where(sf.col("action") == "publish").where(_is_event(settings.events))
        rows = rows.select(
            "topic",
            sf.col("_metadata.file_name").alias("file"),
            sf.col("_metadata.row_index").alias("position"),
            sf.lit(bytearray(VERSION)).alias("version"),
            "id",
            sf.encode(
                sf.to_json(
                    sf.struct(
                        *("topic", "client", _time_us().alias("time_us"), "x_km", "y_km", "action"),
                        *("epoch", "sequence", "durable", "server"),
                        # Spark breaks it into lines
                        sf.translate(sf.base64("payload"), "\r\n", "").alias("payload"),
                    ),
                    {"ignoreNullFields": "false"},
                ),
                "UTF-8",
            ).alias("value"),
        )
    return rows.withColumn("arrived", sf.current_timestamp())


def read_traffic(spark: SparkSession, settings: StreamSettings, repeats_s: float) -> DataFrame:
    """Return what clients did, publications once each, by their homes' clocks.

    Columns: topic, client, action (also ``notified``), time_s, x_km, y_km. What cannot be read is
    left out, and counted in the query's progress (`progress_lines.refused_rows`).
    """
    common = ("topic", "client", "action", "time_s", "x_km", "y_km")
    if settings.log is None:
        kinds = ("publications", "events", "reports")
        did = _said(_kafka(spark, settings, kinds, settings.most_rows * 4))
        did = did.withColumn("time_s", sf.col("time_us") / 1e6)
        told = _said(_kafka(spark, settings, ("notifications",), settings.most_rows * 4))
    else:
        did = _files(spark, settings.log, "publications", _PUBLICATIONS)
        did = did.withColumn("id", _identity()).withColumnRenamed("time", "time_s")
        told = _files(spark, settings.log, "notifications", _NOTIFICATIONS)
    told = _sound(told, "clients is not null and notified_us is not null", "notifications").select(
        "topic",
        sf.explode("clients").alias("client"),
        sf.lit("notified").alias("action"),
        _not_ahead(sf.col("notified_us") / 1e6).alias("time_s"),
        sf.lit(None).cast("double").alias("x_km"),
        sf.lit(None).cast("double").alias("y_km"),
    )
    once = (
        _sound(did, "client is not null and time_s is not null and id is not null", "publications")
        .withColumn("time_s", _not_ahead("time_s"))
        .withColumn("moment", sf.timestamp_seconds("time_s"))
        .withWatermark("moment", f"{repeats_s:.0f} seconds")
        .dropDuplicatesWithinWatermark(["id"])
    )
    return once.select(*common).union(told.select(*common))


_HEADER = "get(filter(headers, one -> one.key = '{}'), 0)"


def _said(values: DataFrame) -> DataFrame:
    """Return what records say; all is null in those that are not of this version, or malformed."""
    value = sf.when(_header("v") == sf.lit(bytearray(VERSION)), sf.col("value").cast("string"))
    said = values.select(
        sf.expr(f"string({_HEADER.format('id')}.value)").alias("id"),
        sf.from_json(value, _RECORD).alias("of"),
    )
    return said.select("id", "of.*")


def _sound(rows: DataFrame, condition: str, name: str) -> DataFrame:
    """Return the rows that say all that is needed, and have the others counted."""
    others = sf.count_if(sf.expr(f"not ({condition})")).alias(REFUSED)
    return rows.observe(f"nearcast {name}", others).where(condition)


def _header(name: str) -> Column:
    return sf.expr(f"{_HEADER.format(name)}.value")


def _kafka(
    spark: SparkSession, settings: StreamSettings, kinds: Sequence[str], most_rows: int
) -> DataFrame:
    kafka = settings.kafka
    assert kafka is not None
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": ",".join(kafka.topic(kind) for kind in kinds),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(most_rows),
        **settings.source_options,
    }
    return spark.readStream.format("kafka").options(**options).load()


def _files(spark: SparkSession, log: Path, table: str, schema: str) -> DataFrame:
    # a pattern, since the folder may come later: nobody was notified yet
    pattern = log.absolute() / f"{table[:-1]}[{table[-1]}]"
    return (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", str(_FILES_AT_ONCE))
        .option("ignoreMissingFiles", "true")  # servers remove old ones
        .option("ignoreCorruptFiles", "true")
        .option("pathGlobFilter", "*.parquet")
        .parquet(str(pattern))
    )


def _not_ahead(time_s: str | Column) -> Column:
    """Return a time that is not after now: one clock that is ahead must not make all others late."""
    return sf.least(time_s, sf.unix_micros(sf.current_timestamp()) / 1e6)


def _time_us() -> Column:
    return sf.round(sf.col("time") * 1e6).cast("long")


def _identity() -> Column:
    """Return the identity that `links.kafka_records` gives such a row."""
    how = sf.when(sf.col("durable"), "d").otherwise("o")
    published = sf.concat_ws("/", "client", "epoch", how, "sequence", "topic")
    other = sf.concat_ws("/", "client", _time_us(), "action", sf.coalesce("topic", sf.lit("")))
    return sf.when(sf.col("action") == "publish", published).otherwise(other)


def _is_event(patterns: Sequence[str]) -> Column:
    found = sf.lit(False)
    for pattern in patterns:
        found = found | sf.col("topic").rlike(_regular(pattern))
    return found


def _regular(pattern: str) -> str:
    """Return a topic pattern (`trust.topic_pattern`) as a regular expression of Java."""
    levels = pattern.split("/")
    if levels == ["#"]:
        return "^.*$"
    is_open = levels[-1] == "#"
    fixed = levels[:-1] if is_open else levels
    text = "/".join("[^/]*" if one == "+" else rf"\Q{one}\E" for one in fixed)
    return f"^{text}(/.*)?$" if is_open else f"^{text}$"

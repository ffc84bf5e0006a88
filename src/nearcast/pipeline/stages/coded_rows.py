"""Rows of a log with numbers for names: made once, then counted and placed without any text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.imports.publications import medians
from nearcast.domain.scenario import FloatArray, OffsetArray
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.blocks import block_count
from nearcast.pipeline.stages.driver_tables import collect
from nearcast.pipeline.stages.medians import exact_medians

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BUSY_ROWS",
    "CODED_SCHEMA",
    "SUBSCRIPTION_SCHEMA",
    "client_places",
    "code_rows",
    "count_members",
]

CODED_SCHEMA = "topic_index int, client_index int, x_km double, y_km double, is_message boolean"
"""No topic: a report, or one that nobody publishes to."""
SUBSCRIPTION_SCHEMA = "subscribes boolean, time_s double, row bigint"
"""What is added where the log tells who subscribed; `subscribes` is null in other rows."""
_AXES = ("x_km", "y_km")
_ROWS_OF_A_BLOCK = 1_000_000
"""A worker sorts so many positions at once; more would only take more memory."""
BUSY_ROWS = 1_000_000
_MOST_BUSY = 50
"""A client with more rows than the one, and than this part of all, is busy."""


def code_rows(
    rows: DataFrame,
    topics: DataFrame,
    clients: DataFrame,
    projection: LocalProjection | None,
    has_subscriptions: bool,
) -> DataFrame:
    """Return the rows with numbers for names and places on the plane.

    `topics` are (topic, topic_index), `clients` (client, client_index) of all rows.
    """
    axes = ("x_km", "y_km") if projection is None else ("latitude", "longitude")
    # As flags, not as texts: they go through the workers as they are.
    action = sf.col("action")
    said = sf.when(action.isin("subscribe", "unsubscribe"), action == "subscribe")
    flags = {"is_message": action == "publish"}
    if has_subscriptions:
        flags |= {"subscribes": said, "time_s": sf.col("time_s"), "row": sf.col("row")}
    kept = (column.alias(name) for name, column in flags.items())
    wanted = rows.select(*(sf.col(name) for name in ("topic", "client", *axes)), *kept)
    numbered = wanted.join(clients, "client").join(topics, "topic", "left")
    coded = numbered.select("topic_index", "client_index", *axes, *flags)
    return coded if projection is None else _projected(coded, projection, has_subscriptions)


def _projected(coded: DataFrame, projection: LocalProjection, has_subscriptions: bool) -> DataFrame:
    def project(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topic, client, latitude, longitude, *others = batch.columns
            x, y = map(pa.array, projection.to_plane(latitude.to_numpy(), longitude.to_numpy()))
            names = [*batch.schema.names[:2], "x_km", "y_km", *batch.schema.names[4:]]
            yield pa.RecordBatch.from_arrays([topic, client, x, y, *others], names)

    schema = CODED_SCHEMA + (f", {SUBSCRIPTION_SCHEMA}" if has_subscriptions else "")
    return coded.mapInArrow(project, schema)


def count_members(
    coded: DataFrame, span_s: float, has_subscriptions: bool, publishers_subscribe: bool
) -> DataFrame:
    """Return a row for each topic and client that has a part in it."""
    messages = sf.count_if("is_message").alias("messages")
    said = sf.when(sf.col("subscribes").isNotNull(), sf.struct("time_s", "row", "subscribes"))
    last_word = sf.max(said).alias("last")
    counted = [messages, last_word] if has_subscriptions else [messages]
    pairs = coded.where("topic_index is not null").groupBy("topic_index", "client_index")
    publishes = sf.col("messages") > 0
    if has_subscriptions:
        subscribes = sf.coalesce("last.subscribes", sf.lit(False))
    else:
        subscribes = publishes & sf.lit(publishers_subscribe)
    return (
        pairs.agg(*counted)
        .select(
            "topic_index",
            "client_index",
            publishes.alias("publishes"),
            subscribes.alias("subscribes"),
            "messages",
            (sf.col("messages") / sf.lit(span_s)).alias("rate_hz"),
        )
        .where("publishes or subscribes")
    )


def client_places(spark: SparkSession, coded: DataFrame, reports: OffsetArray) -> FloatArray:
    """Return the median position [client, (x, y)] of each client, who has so many rows.

    Clients are spread over tasks, each one's rows in one. A client whose rows would hold up all
    others is looked at for itself, over all tasks.
    """
    rows = int(reports.sum())
    busy = np.flatnonzero(reports > max(BUSY_ROWS, rows // _MOST_BUSY)).tolist()
    blocks = max(block_count(spark, rows, 10_000), -(-rows // _ROWS_OF_A_BLOCK))
    places = coded.select("client_index", *_AXES)
    others = places.where(~sf.col("client_index").isin(*busy)) if busy else places
    others = others.coalesce(1) if blocks == 1 else others.repartition(blocks, "client_index")
    found = others.mapInArrow(_places, "client_index int, x_km double, y_km double")
    found = collect(found, "places of clients")
    place_km = np.empty((len(reports), 2))
    place_km[found.column(0).to_numpy()] = np.column_stack(
        [found.column(axis).to_numpy() for axis in _AXES]
    )
    for client in busy:
        place_km[client] = exact_medians(places.where(sf.col("client_index") == client), _AXES)
    return place_km


def _places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the places of the clients of a task."""
    waiting = list(batches)
    if not waiting:
        return
    table = pa.Table.from_batches(waiting)
    client, group = np.unique(table.column(0).to_numpy(), return_inverse=True)
    axes = [medians(group, table.column(axis).to_numpy()) for axis in _AXES]
    arrays = [pa.array(array) for array in (client, *axes)]
    yield pa.RecordBatch.from_arrays(arrays, ["client_index", *_AXES])

"""Rows of a log with numbers for names: made once, then counted and placed without any text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.imports.publications import medians
from nearcast.domain.scenario import FloatArray
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.blocks import block_count
from nearcast.pipeline.shared_arrays import SharedArrays
from nearcast.pipeline.stages.names import gather, index_of, names_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.pipeline.workspace import Workspace

__all__ = ["CODED_SCHEMA", "SUBSCRIPTION_SCHEMA", "client_places", "code_rows", "count_members"]

CODED_SCHEMA = "topic_index int, client_index int, x_km double, y_km double, is_message boolean"
"""No topic: a report, or one that nobody publishes to."""
SUBSCRIPTION_SCHEMA = "subscribes boolean, time_s double, row bigint"
"""What is added where the log tells who subscribed; `subscribes` is null in other rows."""
_ROWS_OF_A_BLOCK = 1_000_000
"""A worker sorts so many positions at once; more would only take more memory."""


def code_rows(
    rows: DataFrame,
    shared: SharedArrays,
    projection: LocalProjection | None,
    has_subscriptions: bool,
) -> DataFrame:
    """Return the rows with numbers for names and places on the plane."""
    axes = ("x_km", "y_km") if projection is None else ("latitude", "longitude")
    # As flags, not as texts: they go through the workers as they are.
    action = sf.col("action")
    said = sf.when(action.isin("subscribe", "unsubscribe"), action == "subscribe")
    flags = {"is_message": action == "publish"}
    if has_subscriptions:
        flags |= {"subscribes": said, "time_s": sf.col("time_s"), "row": sf.col("row")}
    kept = (column.alias(name) for name, column in flags.items())
    wanted = rows.select(*(sf.col(name) for name in ("topic", "client", *axes)), *kept)

    kept_names = list(flags)

    def code(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrays = shared.load()
        names = {kind: names_in(arrays, kind) for kind in ("topic", "client")}
        for table in gather(batches):
            x, y = (table.column(axis) for axis in axes)
            if projection is not None:
                x, y = map(pa.array, projection.to_plane(x.to_numpy(), y.to_numpy()))
            columns = {f"{kind}_index": index_of(table.column(kind), names[kind]) for kind in names}
            columns |= {"x_km": x, "y_km": y} | {name: table.column(name) for name in kept_names}
            yield from pa.table(columns).to_batches()

    schema = CODED_SCHEMA + (f", {SUBSCRIPTION_SCHEMA}" if has_subscriptions else "")
    return wanted.mapInArrow(code, schema)


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


def client_places(workspace: Workspace, coded: DataFrame, rows: int, clients: int) -> FloatArray:
    """Return the median position [client, (x, y)] of each client."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in gather(batches, rows + 1):
            client, group = np.unique(table.column(0).to_numpy(), return_inverse=True)
            axes = [medians(group, table.column(axis).to_numpy()) for axis in (1, 2)]
            arrays = [pa.array(array) for array in (client, *axes)]
            yield pa.RecordBatch.from_arrays(arrays, ["client_index", "x_km", "y_km"])

    blocks = max(block_count(workspace.spark, rows, 10_000), -(-rows // _ROWS_OF_A_BLOCK))
    places = coded.select("client_index", "x_km", "y_km")
    places = places.coalesce(1) if blocks == 1 else places.repartition(blocks, "client_index")
    found = places.mapInArrow(place, "client_index int, x_km double, y_km double").toArrow()
    place_km = np.empty((clients, 2))
    place_km[found.column(0).to_numpy()] = np.column_stack(
        [found.column(axis).to_numpy() for axis in (1, 2)]
    )
    return place_km

"""Members, rates and positions brought up to date by a batch: DataFrames in, DataFrames out.

A rate is the sum of exp(-age / window) over a member's publications, divided by the window: it needs
one number and one time for each member, and does not depend on how rows are cut into batches.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CLIENTS", "MEMBERS", "merge_clients", "merge_members"]

MEMBERS = (
    "topic string, client string, messages long, weight double, published_s double,"
    " subscribes boolean, word_s double, notified_s double, rate_hz double"
)
CLIENTS = "client string, x_km double, y_km double, place_s double, seen_s double"
_LARGEST_KM = 50_000.0


def merge_members(
    before: DataFrame, rows: DataFrame, now_s: float, window_s: float, forget_s: float
) -> DataFrame:
    """Return members after some more rows.

    Parameters
    ----------
    before
        Columns `MEMBERS`.
    rows
        As of `sources.read_traffic`.
    now_s
        The newest time that was seen: rates are as of then.
    """
    time_s, action = sf.col("time_s"), sf.col("action")
    is_word = action.isin("subscribe", "unsubscribe")
    is_publication = action == "publish"
    named = (sf.length("topic") > 0) & (sf.length("client") > 0)
    new = rows.where(named & (is_word | is_publication | (action == "notified"))).select(
        "topic",
        "client",
        is_publication.cast("long").alias("messages"),
        is_publication.cast("double").alias("weight"),
        sf.when(is_publication, time_s).alias("published_s"),
        sf.when(is_word, action == "subscribe").alias("subscribes"),
        sf.when(is_word, time_s).alias("word_s"),
        sf.when(action == "notified", time_s).alias("notified_s"),
    )
    merged = (
        before.drop("rate_hz")
        .union(new)
        .groupBy("topic", "client")
        .agg(
            sf.sum("messages").alias("messages"),
            sf.collect_list(
                sf.when(sf.col("published_s").isNotNull(), sf.struct("weight", "published_s"))
            ).alias("sums"),
            sf.max("published_s").alias("last_s"),
            sf.max_by("subscribes", "word_s").alias("subscribes"),
            sf.max("word_s").alias("word_s"),
            sf.max("notified_s").alias("notified_s"),
        )
    )
    weight = sf.aggregate(
        "sums",
        sf.lit(0.0),
        lambda total, one: (
            total + one["weight"] * sf.exp((one["published_s"] - sf.col("last_s")) / window_s)
        ),
    )
    seen_s = sf.greatest("last_s", "word_s", "notified_s")
    return (
        merged.where(sf.coalesce("subscribes", sf.lit(False)) | (seen_s >= now_s - forget_s))
        .withColumn("weight", weight)
        .select(
            *("topic", "client", "messages", "weight", sf.col("last_s").alias("published_s")),
            *("subscribes", "word_s", "notified_s"),
            sf.coalesce(
                sf.col("weight") * sf.exp((sf.col("last_s") - now_s) / window_s) / window_s,
                sf.lit(0.0),
            ).alias("rate_hz"),
        )
    )


def merge_clients(before: DataFrame, rows: DataFrame, now_s: float, forget_s: float) -> DataFrame:
    """Return where clients are, columns `CLIENTS`, after some more rows: the newest place counts."""
    is_place = reduce(
        lambda left, right: left & right,
        (sf.coalesce(sf.abs(axis) <= _LARGEST_KM, sf.lit(False)) for axis in ("x_km", "y_km")),
    )
    time_s = sf.col("time_s")
    new = rows.where(sf.length("client") > 0).select(
        "client",
        _where(is_place, "x_km"),
        _where(is_place, "y_km"),
        sf.when(is_place, time_s).alias("place_s"),
        time_s.alias("seen_s"),
    )
    return (
        before.union(new)
        .groupBy("client")
        .agg(
            sf.max_by(sf.struct("x_km", "y_km"), "place_s").alias("place"),
            sf.max("place_s").alias("place_s"),
            sf.max("seen_s").alias("seen_s"),
        )
        .where(sf.col("seen_s") >= now_s - forget_s)
        .select("client", "place.x_km", "place.y_km", "place_s", "seen_s")
    )


def _where(is_place: Column, axis: str) -> Column:
    return sf.when(is_place, sf.col(axis)).alias(axis)

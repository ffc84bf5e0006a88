"""What the last minutes of a site's event log say, by Spark: who was where and did what.

The event log has columns of its own (`runtime.event_log_tables`) and is read as it is; files that
are older than the window by their time of change are not opened. A row that cannot be used is
counted and passed over, and so is a file that is not Parquet: one bad file must not hold up
re-planning for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.traffic import Traffic
from nearcast.errors import PipelineError
from nearcast.pipeline.spark_errors import clear_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["learn_traffic", "measure_delay"]

_PUBLICATIONS = (
    "topic string, client string, time double, x_km double, y_km double, action string,"
    " sequence long, epoch long, durable boolean"
)
_NOTIFICATIONS = "topic string, clients array<string>, published_us long, notified_us long"
_LARGEST_KM = 50_000.0
_LONGEST_US = 600_000_000
"""A delay beyond this, or below 0, tells of a wrong clock."""
_MAGIC = b"PAR1"


def learn_traffic(
    spark: SparkSession,
    log: Path,
    since_s: float,
    until_s: float,
    *,
    words_since_s: float = 0.0,
    known_words: Mapping[tuple[str, str], bool] | None = None,
) -> Traffic:
    """Return what happened in a window of a site's event log.

    Parameters
    ----------
    log
        The folder with ``publications`` and ``notifications``, visible to all executors.
    since_s, until_s
        The window, in Unix time of the servers.
    words_since_s, known_words
        Subscriptions count from the start of the log; these were learned from what was written
        until then.

    Raises
    ------
    PipelineError
        When there is no log, nothing was published in the window, or Spark fails.
    """
    files, bad_files = _files(log / "publications", min(since_s, words_since_s))
    if not files:
        raise PipelineError(f"{log}: the event log is empty")
    with clear_errors(f"learning from {log}"):
        rows = _read(spark, _PUBLICATIONS, files)
        recent = _window(rows, since_s, until_s)
        words = dict(known_words or {}) | _last_words(rows, until_s)
        places, bad_places = _places(recent)
        published, bad_publications = _published(recent)
        if not published:
            raise PipelineError(
                f"nothing was published in the last {until_s - since_s:.0f} s{_ends(rows, until_s)}"
            )
        told = _told(spark, log / "notifications", since_s, until_s)
    return Traffic(
        since_s=since_s,
        until_s=until_s,
        places_km=places,
        published=published,
        subscriptions=words,
        notified=told.keys(),
        delay_ms=_mean_ms(told),
        deliveries=sum(count for _, count in told.values()),
        bad_rows=bad_files + bad_places + bad_publications,
    )


def measure_delay(spark: SparkSession, log: Path, since_s: float, until_s: float) -> float | None:
    """Return the mean time from publishing to the home's notification, None if nobody was notified.

    Raises
    ------
    PipelineError
        When Spark fails.
    """
    with clear_errors(f"measuring {log}"):
        return _mean_ms(_told(spark, log / "notifications", since_s, until_s))


def _files(folder: Path, since_s: float) -> tuple[list[str], int]:
    """Return the whole files of a table that were written since then, and how many are not one."""
    found, bad = [], 0
    for path in sorted(folder.glob("[!._]*.parquet")):
        try:
            if path.stat().st_mtime < since_s:
                continue
            with path.open("rb") as file:
                head = file.read(len(_MAGIC))
                file.seek(-min(len(_MAGIC), path.stat().st_size), 2)
                is_whole = head == file.read() == _MAGIC
        except FileNotFoundError:
            continue  # too old by now: the server removed it
        except OSError as error:
            raise PipelineError(f"{path}: cannot be read: {error.strerror or error}") from error
        if is_whole:
            found.append(str(path.absolute()))
        else:
            bad += 1
    return found, bad


def _read(spark: SparkSession, schema: str, files: Sequence[str]) -> DataFrame:
    reader = spark.read.schema(schema)
    for option in ("ignoreCorruptFiles", "ignoreMissingFiles"):  # servers remove old ones
        reader = reader.option(option, "true")
    return reader.parquet(*files)


def _window(rows: DataFrame, since_s: float, until_s: float) -> DataFrame:
    return rows.where(sf.col("time").between(since_s, until_s))


def _last_words(rows: DataFrame, until_s: float) -> dict[tuple[str, str], bool]:
    is_word = sf.col("action").isin("subscribe", "unsubscribe") & (sf.col("time") <= until_s)
    found = (
        rows.where(is_word & _is_named("topic") & _is_named("client"))
        .groupBy("topic", "client")
        .agg(sf.max_by("action", "time").alias("word"))
        .toArrow()
    )
    return {key: word == "subscribe" for key, word in _by_member(found, "word").items()}


def _places(rows: DataFrame) -> tuple[dict[str, tuple[float, float]], int]:
    is_place = reduce(
        lambda left, right: left & right,
        (sf.coalesce(sf.abs(axis) <= _LARGEST_KM, sf.lit(False)) for axis in ("x_km", "y_km")),
    )
    # the median of a window would have a client that moves where it was half a window ago
    newest = sf.max_by(sf.struct("x_km", "y_km"), sf.when(is_place, sf.col("time")))
    found = (
        rows.groupBy("client")
        .agg(
            newest.alias("place"),
            sf.count_if(~is_place | ~_is_named("client")).alias("bad"),
        )
        .toArrow()
        .to_pylist()
    )
    places = {
        row["client"]: (row["place"]["x_km"], row["place"]["y_km"])
        for row in found
        if row["client"] and row["place"] is not None
    }
    return places, sum(row["bad"] for row in found)


def _published(rows: DataFrame) -> tuple[dict[tuple[str, str], int], int]:
    found = (
        rows.where(sf.col("action") == "publish")
        .groupBy("topic", "client")
        .agg(
            # one that a client repeated at another home is there twice
            sf.count_distinct(sf.struct("epoch", "durable", "sequence")).alias("messages")
        )
        .toArrow()
    )
    counts = _by_member(found, "messages")
    sound = {key: count for key, count in counts.items() if all(key)}
    return sound, sum(counts.values()) - sum(sound.values())


def _told(
    spark: SparkSession, folder: Path, since_s: float, until_s: float
) -> dict[tuple[str, str], tuple[float, int]]:
    """Return by topic and client: the sum of the delays of what it was notified, and how many."""
    files, _ = _files(folder, since_s)
    if not files:
        return {}
    delay_us = sf.col("notified_us") - sf.col("published_us")
    is_sound = sf.col("delay_us").between(0, _LONGEST_US)
    found = (
        _read(spark, _NOTIFICATIONS, files)
        .where(sf.col("notified_us").between(int(since_s * 1e6), int(until_s * 1e6)))
        .select("topic", sf.explode("clients").alias("client"), delay_us.alias("delay_us"))
        .where(_is_named("topic") & _is_named("client"))
        .groupBy("topic", "client")
        .agg(
            sf.sum(sf.when(is_sound, sf.col("delay_us"))).alias("sum_us"),
            sf.count_if(is_sound).alias("count"),
        )
        .toArrow()
        .to_pylist()
    )
    return {
        (row["topic"], row["client"]): ((row["sum_us"] or 0) / 1e3, row["count"]) for row in found
    }


def _mean_ms(told: Mapping[tuple[str, str], tuple[float, int]]) -> float | None:
    count = sum(one for _, one in told.values())
    return sum(one for one, _ in told.values()) / count if count else None


def _is_named(column: str) -> Column:
    return sf.coalesce(sf.length(column) > 0, sf.lit(False))


def _by_member(table: pa.Table, column: str) -> dict[tuple[str, str], Any]:
    names = zip(table["topic"].to_pylist(), table["client"].to_pylist(), strict=True)
    return dict(zip(names, table[column].to_pylist(), strict=True))


def _ends(rows: DataFrame, until_s: float) -> str:
    found = rows.where(sf.col("time") <= until_s).agg(sf.max("time")).first()
    if found is None or found[0] is None:
        return ""
    return f"; the log ends {until_s - found[0]:.0f} s before"

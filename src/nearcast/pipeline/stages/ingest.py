"""Stage 1, Ingest: which rows of the raw logs can be used, and why the others cannot.

========================  ==========================================================
table                     columns
========================  ==========================================================
publications              row (order of the log), file, topic (none for a report),
                          client, time_s, x_km and y_km or latitude and longitude,
                          size (may be missing), action (also repeat: a publication
                          that a site's own log has already)
quarantine                row, file, reason, text (the row as the file has it),
                          bytes (where they are not UTF-8)
========================  ==========================================================
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as parquet
from pyspark.sql import Observation, Window
from pyspark.sql import functions as sf

from nearcast.errors import ScenarioError
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.log_files import LogFiles, LogPath, read_layout
from nearcast.pipeline.stages.plausible import Plausibility
from nearcast.pipeline.stages.quarantine import QUARANTINE_SCHEMA
from nearcast.pipeline.stages.raw_rows import PUBLICATION, WHITE, read_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["ACTIONS", "REPEAT", "ingest_publications", "split_rows"]

ACTIONS = ("publish", "subscribe", "unsubscribe", "report")
REPEAT = "repeat"
"""What the table says of a publication that is there already: where the client was, and no more."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CONTROL = r"[\x00-\x08\x0A-\x1F\x7F-\x9F]"
"""All but the tab, which names of other programs do have."""
_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d.*)?$"


def ingest_publications(
    workspace: Workspace,
    paths: Sequence[LogPath],
    record: StageRecord,
    plausible: Plausibility | None = None,
    now_s: float | None = None,
) -> None:
    """Read logs of one format, CSV, JSON lines or Parquet, and write the tables above.

    Columns are those of `import_publications` and optionally `action`: publish (also where it
    is missing), subscribe, unsubscribe or report, which is a position and needs no topic. A
    line is a row: a line break inside quotes puts the two halves aside.

    Parameters
    ----------
    plausible : limits beyond which a row is put aside.
    now_s : the moment of the run, seconds since 1970; None: by the clock.

    Raises
    ------
    ScenarioError
        When a file is missing, empty or unreadable, columns are missing, or no row can be used.
    PipelineError
        When Spark fails to read the files.
    """
    log = read_layout(paths)
    plausible, now_s = plausible or Plausibility(), time.time() if now_s is None else now_s
    place = str(log.files[0]) if len(log.files) == 1 else f"{len(log.files)} files of the log"
    with clear_errors(place):
        rows = _checked(read_rows(workspace.spark, log), log)
        reason = plausible.reason(_reason(log), log.axes, now_s)
        rows = rows.withColumn("reason", reason)
        if "publication" in rows.columns:
            rows = rows.withColumn("action", _once())
        columns = ["row", "file", "topic", "client", "time_s", *log.axes, "size", "action"]
        split_rows(workspace, rows, "publications", columns, record)
    record.notes["positions"] = "km" if log.in_km else "degrees"
    record.notes["plausible"] = plausible.notes(log.axes, now_s)
    record.notes["files"] = len(log.files)
    if log.empty_files:
        record.notes["empty_files"] = log.empty_files
    if not record.rows_in:
        raise ScenarioError("has no rows of data", file=place)
    if not record.rows_out:
        reasons = ", ".join(f"{reason} ({n:,})" for reason, n in record.notes["reasons"].items())
        raise ScenarioError(f"none of {record.rows_in:,} rows can be used: {reasons}", file=place)


def split_rows(
    workspace: Workspace, rows: DataFrame, table: str, columns: Sequence[str], record: StageRecord
) -> None:
    """Write the rows without a reason to a table and the others to the quarantine."""
    seen, again = Observation(), Observation()
    count = sf.count(sf.lit(1)).alias("rows")
    # Counting between the two also keeps Spark from parsing each row once more for the filter.
    good = rows.select("reason", *columns).observe(seen, count).where("reason is null")
    good = good.select(*columns)
    record.rows_out = record.tables[table] = workspace.save(table, good)
    record.rows_in = seen.get["rows"]
    if record.rows_in > record.rows_out:
        aside = rows.observe(again, count).where("reason is not null")
        raw = sf.when(~sf.is_valid_utf8("text"), sf.col("text").cast("binary"))
        text = sf.make_valid_utf8("text").alias("text")
        aside = aside.select("row", "file", "reason", text, raw.alias("bytes"))
        record.quarantined = workspace.save("quarantine", aside)
    else:
        record.quarantined = workspace.save_rows("quarantine", QUARANTINE_SCHEMA.empty_table())
    record.tables["quarantine"] = record.quarantined
    record.notes["reasons"] = _count_reasons(workspace)


def _count_reasons(workspace: Workspace) -> dict[str, int]:
    """Return the rows put aside by reason; a column of few texts is small, however many rows."""
    counts: Counter[str] = Counter()
    for file in workspace.files("quarantine"):
        for one in pc.value_counts(parquet.read_table(file, columns=["reason"])["reason"]):
            counts[one["values"].as_py()] += one["counts"].as_py()
    return dict(sorted(counts.items()))


def _checked(rows: DataFrame, log: LogFiles) -> DataFrame:
    """Return the rows with cells of the right types."""
    types = {field.name: field.dataType for field in rows.schema}

    def cell(name: str) -> Column:
        return sf.col(name) if name in types else sf.lit(None).cast("string")

    action = sf.coalesce(sf.nullif(sf.lower(_name(cell("action"))), sf.lit("")), sf.lit("publish"))
    publication = []
    if set(PUBLICATION) <= types.keys():
        parts = [
            part for name in PUBLICATION for part in (sf.lit("/"), sf.col(name).cast("string"))
        ]
        publication = [sf.when(action == "publish", sf.concat(*parts)).alias("publication")]
    return rows.select(
        "row",
        "file",
        "text",
        "is_broken",
        sf.when(action != "report", _name(cell("topic"))).alias("topic"),
        _name(sf.col("client")).alias("client"),
        _seconds(log, types["time"]).alias("time_s"),
        *(_number(sf.col(axis), types[axis]).alias(axis) for axis in log.axes),
        _number(cell("size"), types.get("size")).alias("size"),
        _is_given(cell("size"), types.get("size")).alias("has_size"),
        action.alias("action"),
        *publication,
    )


def _once() -> Column:
    """Return the action of a row, `repeat` for a publication that is there already.

    A client that waits long for its acknowledgement publishes again, to this home or another one,
    and each home logs what it gets.
    """
    same = Window.partitionBy("client", "topic", "publication", sf.col("reason").isNull())
    is_repeat = sf.col("publication").isNotNull() & (sf.col("row") > sf.min("row").over(same))
    return sf.when(is_repeat, REPEAT).otherwise(sf.col("action"))


def _reason(log: LogFiles) -> Column:
    """Return why a row cannot be read."""
    x, y = (sf.col(axis) for axis in log.axes)
    # The text of a row of Parquet is made of its cells: only the quarantine should ask for it.
    is_text = sf.lit(True) if log.format == "parquet" else sf.is_valid_utf8("text")
    return (
        sf.when(~is_text, "not UTF-8")
        .when(sf.col("is_broken"), f"malformed {log.format.upper()}")
        .when(~sf.col("action").isin(*ACTIONS), "unknown action")
        .when(_is_empty("client"), "no client")
        .when(_is_empty("topic") & (sf.col("action") != "report"), "no topic")
        .when(_has_control("client") | _has_control("topic"), "control character in a name")
        .when(sf.col("time_s").isNull(), "time is neither seconds nor a date")
        .when(x.isNull() | y.isNull(), "position is not a pair of numbers")
        .when(sf.col("size").isNull() & sf.col("has_size"), "size is not a number")
    )


def _is_empty(column: str) -> Column:
    return sf.coalesce(sf.col(column), sf.lit("")) == ""


def _has_control(column: str) -> Column:
    return sf.coalesce(sf.col(column).rlike(_CONTROL), sf.lit(False))


def _is_given(cell: Column, kind: DataType | None) -> Column:
    """Return whether a cell says anything."""
    if kind is None or kind.typeName() == "string":
        return sf.coalesce(_name(cell), sf.lit("")) != ""
    return cell.isNotNull()


def _name(cell: Column) -> Column:
    """Return a cell as text without white space around it."""
    return sf.trim(cell.cast("string"), sf.lit(WHITE))


def _number(cell: Column, kind: DataType | None) -> Column:
    """Return a finite number, or null."""
    if kind is None or kind.typeName() == "string":
        text = _name(cell)
        cell = sf.when(text.rlike(_NUMBER), text.try_cast("double"))
    number = cell.cast("double")
    return sf.when(sf.abs(number) < float("inf"), number)  # NaN is larger than all to Spark


def _seconds(log: LogFiles, kind: DataType) -> Column:
    """Return seconds, of a date since 1970; a date without a zone is in UTC."""
    cell = sf.col("time")
    if log.has_nanoseconds:
        # To microseconds first: doubles have no room for the nanoseconds of our days.
        return sf.expr("time div 1000") / 1e6
    if kind.typeName() == "string":
        text = _name(cell)
        date = sf.when(text.rlike(_DATE), text.try_cast("timestamp")).cast("double")
        return sf.coalesce(_number(cell, kind), date)
    if kind.typeName().startswith("timestamp"):
        return cell.cast("timestamp").cast("double")
    return _number(cell, kind)

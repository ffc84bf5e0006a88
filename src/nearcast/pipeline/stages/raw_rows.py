"""Rows of raw files as Spark reads them: each with its file, its place in the order and its text."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from nearcast.pipeline.stages.log_files import LogFiles, LogPath

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["PUBLICATION", "WHITE", "read_lines", "read_rows"]

WHITE = " \t\r\n\v\f"
_FILE_BITS = 40
"""A row's number is its file's number, shifted by so much, and its place in the file."""
_COUNTER = (1 << 33) - 1
"""The part of Spark's increasing id that counts the rows of a task."""
_BYTE_ORDER_MARK = "\ufeff"
_BROKEN = "_broken"
_IDS = {"topic", "client", "action"}
PUBLICATION = ("epoch", "durable", "sequence")
"""Columns of a site's own log that tell a client's publications to a topic apart."""


def read_lines(spark: SparkSession, files: Sequence[LogPath]) -> DataFrame:
    """Return the lines (row bigint, file string, text string) that are not empty.

    `row` grows in the order of the files and of the lines in each, however Spark splits them.
    """
    lines = spark.read.option("lineSep", "\n").text(_exact(files))
    # A line has a byte at least, so that the lines of a split are fewer than its bytes; and a
    # split that others follow in its file has a task of its own.
    counter = sf.monotonically_increasing_id().bitwiseAND(sf.lit(_COUNTER))
    place = sf.col("_metadata.file_block_start") + counter
    # Blanks stay: between tabs an empty cell is at the start or the end of the line.
    text = sf.trim(sf.col("value"), sf.lit("\r" + _BYTE_ORDER_MARK))
    numbered = _numbered(lines, len(files), place, text.alias("text"))
    return numbered.where(sf.trim("text", sf.lit(WHITE)) != "")


def read_rows(spark: SparkSession, log: LogFiles) -> DataFrame:
    """Return the rows of a log, nothing checked yet.

    Columns: row, file, text (as the file has it, of Parquet as JSON), is_broken, and those of
    `log.columns` as strings or, from Parquet, as the file has them; of Parquet also those of
    `PUBLICATION`, if all are there.
    """
    if log.format == "parquet":
        return _parquet_rows(spark, log)
    lines = read_lines(spark, log.files)
    if log.format == "csv":
        fields = [f"c{index}" for index in range(len(log.names))]
        options = {"sep": log.separator, "quote": '"', "escape": '"'}
        parsed = sf.from_csv("text", _strings(fields).simpleString(), _permissive(options))
        field_of = {name: fields[log.names.index(column)] for name, column in log.columns.items()}
        is_header = sf.lit(True)
        for field, name in zip(fields, log.names, strict=True):
            is_header &= sf.col(f"cells.{field}").eqNullSafe(sf.lit(name or None))
        rows = lines.withColumn("cells", parsed).where(~is_header)
    else:
        field_of = log.columns
        parsed = sf.from_json("text", _strings(list(field_of.values())), _permissive({}))
        rows = lines.withColumn("cells", parsed)
    # Nothing at all is what the parser says of a line that is no object.
    is_broken = sf.col("cells").isNull() | sf.col("cells").getField(_BROKEN).isNotNull()
    is_broken |= ~(_is_one_object(field_of) if log.format == "json" else _is_well_formed(log))
    cells = [sf.col("cells").getField(field).alias(name) for name, field in field_of.items()]
    return rows.select("row", "file", "text", is_broken.alias("is_broken"), *cells)


def _is_well_formed(log: LogFiles) -> Column:
    """Return whether all cells of a line are whole by RFC 4180.

    The parser of the cells takes quotes inside a cell, what follows a closing quote, and a cell
    that is never closed: both halves of a row with a line break would be rows. Possessive, since
    Java's matcher would else need its stack for a long cell.
    """
    cell = rf'(?:"(?:[^"]++|"")*+"|[^"{log.separator}]*+)'
    return sf.col("text").rlike(f"^{cell}(?:{log.separator}{cell})*+$")


def _is_one_object(field_of: Mapping[str, str]) -> Column:
    """Return whether a text is one JSON object, of which nothing would be lost or guessed.

    The parser of the cells is content with the first object of a line, takes the last of two
    equal keys and single quotes, and makes texts of objects. The one for variants is not, but for
    what follows the object: a list of the text and a mark has the mark as second element only if
    nothing does. The mark is drawn, so that no text can hold it.
    """
    mark = uuid.uuid4().hex
    listed = sf.try_parse_json(sf.concat(sf.lit("["), "text", sf.lit(f',"{mark}"]')))
    is_one = sf.try_variant_get(listed, "$[1]", "string") == mark
    for name in _IDS & field_of.keys():
        cell = sf.col("cells").getField(field_of[name])
        value = sf.try_variant_get(listed, f"$[0]['{field_of[name]}']", "variant")
        is_nested = cell.rlike(r"^[{\[]") & sf.schema_of_variant(value).rlike("^(OBJECT|ARRAY)")
        is_one &= ~sf.coalesce(is_nested, sf.lit(False))
    return sf.coalesce(is_one, sf.lit(False))


def _parquet_rows(spark: SparkSession, log: LogFiles) -> DataFrame:
    # What pandas writes: Spark has no such type and takes nanoseconds as whole numbers.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = spark.read.parquet(*_exact(log.files))
    text = sf.to_json(sf.struct(*map(_quoted, frame.columns))).alias("text")
    cells = [sf.col(_quoted(column)).alias(name) for name, column in log.columns.items()]
    if set(PUBLICATION) <= set(frame.columns):
        cells += [sf.col(name) for name in PUBLICATION]
    place = sf.col("_metadata.row_index")
    return _numbered(frame, len(log.files), place, text, sf.lit(False).alias("is_broken"), *cells)


def _numbered(frame: DataFrame, file_count: int, place: Column, *columns: Column) -> DataFrame:
    """Return the columns of a frame of files with `row` and `file` before them."""
    rows = frame.select(
        place.cast("bigint").alias("row"), sf.col("_metadata.file_path").alias("file"), *columns
    )
    if file_count == 1:
        return rows
    # Spark writes file:///folder here and file:/folder in the metadata.
    files = sorted(re.sub("^file:/+", "file:/", file) for file in frame.inputFiles())
    numbers = frame.sparkSession.createDataFrame(
        list(enumerate(files)), "number bigint, file string"
    )
    joined = rows.join(sf.broadcast(numbers), "file", "left")
    number = sf.shiftleft(sf.coalesce("number", sf.lit(len(files))), _FILE_BITS)
    return joined.withColumn("row", sf.col("row") + number).select(rows.columns)


def _strings(fields: Sequence[str]) -> StructType:
    return StructType([StructField(field, StringType()) for field in (*fields, _BROKEN)])


def _permissive(options: dict[str, str]) -> dict[str, str]:
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN, **options}


def _exact(files: Sequence[LogPath]) -> list[str]:
    """Return paths in which no character means a pattern to Spark."""
    return [re.sub(r"([\\*?\[\]{}^,])", r"\\\1", str(file.absolute())) for file in files]


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"

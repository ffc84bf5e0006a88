"""The files of a raw log: which there are, and what their first lines say about the columns."""

from __future__ import annotations

import csv
import glob
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from nearcast.domain.imports.positions import LATITUDE, LONGITUDE, X_KM, Y_KM, has_km
from nearcast.domain.imports.publications import CLIENT, SIZE, TIME, TOPIC
from nearcast.domain.imports.sources import SourceTable
from nearcast.domain.local_paths import local_path
from nearcast.errors import ScenarioError
from nearcast.pipeline.hadoop_paths import HadoopPath
from nearcast.pipeline.stages.text_files import first_line, lines_of

__all__ = ["LogFiles", "LogPath", "find_files", "read_layout"]

LogPath = Path | HadoopPath
LogFormat = Literal["csv", "json", "parquet"]

_ENDINGS: dict[str, LogFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
_ACTION = ("action",)
_SAMPLED_LINES = 1000


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A raw log: files of one format and one layout."""

    format: LogFormat
    files: tuple[LogPath, ...]
    columns: dict[str, str]
    """Our name of a column, and that of the files; an optional one may be missing."""
    in_km: bool
    names: tuple[str, ...] = ()
    """All columns of a CSV file, in order."""
    separator: str = ","
    has_nanoseconds: bool = False
    """Whether times are timestamps of Parquet that Spark takes as whole nanoseconds."""
    empty_files: int = 0

    @property
    def axes(self) -> tuple[str, str]:
        """Our names of the two columns of a position."""
        return ("x_km", "y_km") if self.in_km else ("latitude", "longitude")


def find_files(paths: Sequence[LogPath]) -> list[LogPath]:
    """Return the files of paths, folders and patterns such as ``log-*.csv``, in order.

    Files in folders whose names start with ``_`` or ``.`` are marks of other programs.

    Raises
    ------
    ScenarioError
        When a path is missing or holds no file.
    """
    found: dict[LogPath, None] = {}
    for path in paths:
        if isinstance(path, HadoopPath):
            found.update(dict.fromkeys(path.files()))
            continue
        path = local_path(path)
        matches = [path] if path.exists() else sorted(map(Path, glob.glob(str(path))))
        if not matches:
            raise ScenarioError("no such file", file=str(path))
        for match in matches:
            inside = sorted(_visible_files(match)) if match.is_dir() else [match]
            if not inside:
                raise ScenarioError("is a folder without files", file=str(match))
            found.update(dict.fromkeys(inside))
    return list(found)


def read_layout(paths: Sequence[LogPath]) -> LogFiles:
    """Return what the files of a log are; only their beginnings are read.

    Raises
    ------
    ScenarioError
        When there is no file, formats or columns differ, or a required column is missing.
    """
    files = find_files(paths)
    formats = {file: _format_of(file) for file in files}
    kind = formats[files[0]]
    for file, other in formats.items():
        if other != kind:
            message = f"is {other}, but {files[0]} is {kind}; give logs of one format"
            raise ScenarioError(message, file=str(file))
    if kind == "parquet":
        return _parquet_layout(files)
    filled = [file for file in files if first_line(file)]
    if not filled:
        raise ScenarioError("is empty", file=str(files[0]))
    layout = _csv_layout(filled) if kind == "csv" else _json_layout(filled)
    in_km, columns = _columns(layout.source)
    if kind == "json":
        # A key that the first lines lack may come later.
        columns = {"topic": TOPIC[0], "size": SIZE[0], "action": _ACTION[0], **columns}
    return LogFiles(
        kind,
        tuple(filled),
        columns,
        in_km,
        layout.names,
        layout.separator,
        empty_files=len(files) - len(filled),
    )


@dataclass(frozen=True, slots=True)
class _TextLayout:
    source: SourceTable
    names: tuple[str, ...] = ()
    separator: str = ","


def _csv_layout(files: Sequence[LogPath]) -> _TextLayout:
    header = first_line(files[0])
    separator = max(",;\t", key=header.count)
    names = _cells(header, separator)
    for file in files[1:]:
        other = _cells(first_line(file), separator)
        if other != names:
            message = f"has the columns {', '.join(other)}, but {files[0]} has {', '.join(names)}"
            raise ScenarioError(message, file=str(file))
    return _TextLayout(_source(files[0], names), tuple(names), separator)


def _json_layout(files: Sequence[LogPath]) -> _TextLayout:
    keys = Counter[str]()
    for line in islice(lines_of(files[0]), _SAMPLED_LINES):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # as of a row of 5,000 brackets
            continue  # the stage puts it aside
        if isinstance(row, dict):
            keys.update(row.keys())
    if not keys:
        raise ScenarioError("has no line that is a JSON object", file=str(files[0]))
    return _TextLayout(_source(files[0], _usual(keys)))


def _usual(keys: Counter[str]) -> list[str]:
    """Return the keys without rarer ones that mean the same: an odd row is not the log's layout."""
    dropped: set[str] = set()
    for names in (TOPIC, CLIENT, TIME, SIZE, _ACTION, X_KM + LATITUDE, Y_KM + LONGITUDE):
        alike = [key for name in names for key in keys if key.strip().lower() == name]
        if alike:
            dropped |= set(alike) - {max(alike, key=keys.__getitem__)}
    return [key for key in keys if key not in dropped]


def _parquet_layout(files: Sequence[LogPath]) -> LogFiles:
    schemas: dict[LogPath, pa.Schema] = {}
    stored: dict[LogPath, pa_parquet.ParquetSchema] = {}
    for file in files:
        try:
            with file.open("rb") as opened, pa_parquet.ParquetFile(opened) as parquet:
                schemas[file], stored[file] = parquet.schema_arrow, parquet.schema
        except (pa.ArrowException, OSError) as reason:
            message = f"is not a whole Parquet file: {' '.join(str(reason).split())[:200]}"
            raise ScenarioError(message, file=str(file)) from None
    first = schemas[files[0]]
    in_km, columns = _columns(SourceTable(str(files[0]), first.empty_table()))
    for file, schema in schemas.items():
        for column in columns.values():
            wanted = first.field(column).type
            index = schema.get_field_index(column)
            found = None if index < 0 else schema.field(index).type
            if found != wanted:
                message = f"is {found or 'missing'}, but {wanted} in {files[0]}"
                raise ScenarioError(message, file=str(file), column=column)
    for name, column in columns.items():
        _check_type(files[0], name, column, first.field(column).type)
    nanoseconds = {_has_nanoseconds(schema, columns["time"]) for schema in stored.values()}
    if len(nanoseconds) > 1:
        message = "is in nanoseconds in some files and not in others; write them alike"
        raise ScenarioError(message, file=str(files[0]), column=columns["time"])
    return LogFiles("parquet", tuple(files), columns, in_km, has_nanoseconds=nanoseconds.pop())


def _has_nanoseconds(schema: pa_parquet.ParquetSchema, column: str) -> bool:
    """Return whether a column is a timestamp in ns; Spark knows the older form, INT96, itself."""
    stored = schema.column(schema.names.index(column))
    return stored.physical_type == "INT64" and "nanoseconds" in stored.logical_type.to_json()


def _check_type(file: LogPath, name: str, column: str, kind: pa.DataType) -> None:
    """Refuse a type that no cast makes into what the column is for."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_whole = types.is_integer(kind)
    is_number = is_whole or types.is_floating(kind) or types.is_decimal(kind)
    if name in ("topic", "client", "action"):
        fits, wanted = is_text or is_whole, "text or whole numbers"
    elif name == "time":
        fits, wanted = is_text or is_number or types.is_timestamp(kind), "a time"
    else:
        fits, wanted = is_text or is_number, "numbers"
    if not fits:
        raise ScenarioError(f"holds {kind}, not {wanted}", file=str(file), column=column)


def _columns(source: SourceTable) -> tuple[bool, dict[str, str]]:
    """Return whether positions are in km, and the files' names of our columns."""
    action, in_km = source.find(_ACTION), has_km(source)
    x, y = (X_KM, Y_KM) if in_km else (LATITUDE, LONGITUDE)
    found = {
        "topic": source.find(TOPIC) if action else source.need(TOPIC),
        "client": source.need(CLIENT),
        "time": source.need(TIME),
        x[0]: source.need(x),
        y[0]: source.need(y),
        "size": source.find(SIZE),
        "action": action,
    }
    return in_km, {name: column for name, column in found.items() if column is not None}


def _source(file: LogPath, names: Sequence[str]) -> SourceTable:
    return SourceTable(str(file), pa.schema([(name, pa.string()) for name in names]).empty_table())


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader(io.StringIO(line), delimiter=separator))


def _visible_files(folder: Path) -> Iterator[Path]:
    for entry in folder.rglob("*"):
        parts = entry.relative_to(folder).parts
        if entry.is_file() and not any(part.startswith(("_", ".")) for part in parts):
            yield entry


def _format_of(file: LogPath) -> LogFormat:
    endings = file.suffixes[:-1] if file.suffix == ".gz" else file.suffixes
    kind = _ENDINGS.get(endings[-1].lower()) if endings else None
    if kind is None or (kind == "parquet" and file.suffix == ".gz"):
        message = f"must end in {', '.join(_ENDINGS)}, or in .gz after it for text"
        raise ScenarioError(message, file=str(file))
    return kind

"""Reading and writing one table as CSV or Parquet, without looking at what its cells mean."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from nearcast.domain.columns import Column, Place
from nearcast.domain.scenario import IndexArray, OffsetArray
from nearcast.domain.texts import in_one_piece
from nearcast.errors import PlanError, ScenarioError

__all__ = [
    "FORMATS",
    "Chosen",
    "TableFormat",
    "check_folder",
    "choose_format",
    "file_label",
    "find_table",
    "read_cells",
    "write_table",
]

FORMATS = ("csv", "parquet")
TableFormat = Literal["csv", "parquet", "auto"]

_LARGEST_CSV_ROWS = 200_000
_BROKEN_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_BLOCK_BYTES = 1 << 24
"""Bytes that the CSV reader takes at once; no row may be longer."""
_ROWS_OF_A_PIECE = 1 << 20
"""Also of a row group of Parquet."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A column that repeats some values: `values[index]`, of which only pieces are ever made."""

    values: pa.Array
    index: IndexArray
    rows: OffsetArray | None = None
    """Only these places of `index`; None: all."""

    def __len__(self) -> int:
        return len(self.index if self.rows is None else self.rows)

    def __getitem__(self, rows: slice) -> pa.Array:
        index = self.index[rows] if self.rows is None else self.index[self.rows[rows]]
        return self.values.take(pa.array(index))


def choose_format(wanted: TableFormat, rows: int) -> Literal["csv", "parquet"]:
    """Return the format to write; `auto` means Parquet when the largest table has many rows."""
    if wanted == "auto":
        return "parquet" if rows > _LARGEST_CSV_ROWS else "csv"
    return wanted


def check_folder(folder: Path, what: str, error: type[ScenarioError] | type[PlanError]) -> None:
    """Raise an error unless the folder is there; `what` it should be is for the message."""
    if not os.path.isdir(folder):
        known = os.path.exists(folder)
        raise error("is not a folder" if known else f"there is no such {what}", file=str(folder))


def file_label(folder: Path, name: str) -> str:
    """Return how errors name a file: its folder's name and its own."""
    return f"{folder.resolve().name}/{name}"


def find_table(
    folder: Path, name: str, error: type[ScenarioError] | type[PlanError]
) -> Path | None:
    """Return the file of a table, or None where it is missing."""
    paths = [folder / f"{name}.{form}" for form in FORMATS]
    found = [path for path in paths if os.path.exists(path)]
    if len(found) == 2:
        Place(file_label(folder, f"{name}.csv"), error).fail(
            f"there is also {name}.parquet; remove one of the two"
        )
    return found[0] if found else None


def read_cells(
    path: Path, columns: Sequence[Column], place: Place
) -> tuple[int, dict[str, pa.Array]]:
    """Return the number of rows and the known columns that the file has, as it has them.

    Cells of CSV come as bytes, those of Parquet in the type that the file says.
    """
    known = {column.name: column for column in columns}
    try:
        read = _read_csv if path.suffix == ".csv" else _read_parquet
        names, table = read(path, known, place)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as reason:
        place.fail(f"cannot be read: {_one_line(reason)}")
    for name, column in known.items():
        if names.count(name) > 1:
            place.fail("appears twice in the header", column=name)
        if name not in names and column.default is None:
            found = ", ".join(names) if names else "none"
            place.fail(f"missing; the columns found are: {found}", column=name)
    cells = {}
    for name in known:
        if name in names:
            cells[name] = in_one_piece(table.column(name))
    return table.num_rows, cells


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table of arrays and `Chosen`; the suffix of the path is its format.

    CSV is quoted only if a cell needs it. The same columns give the same bytes.
    """
    if path.suffix == ".parquet":
        pieces = _pieces(columns)
        first = next(pieces)
        with pa_parquet.ParquetWriter(path, first.schema) as writer:
            writer.write_table(first)
            for piece in pieces:
                writer.write_table(piece)
        return
    try:
        _write_csv(path, columns, "none")
    except pa.ArrowInvalid:  # an id with a comma, a quote or a line end
        _write_csv(path, columns, "needed")


def _pieces(columns: Mapping[str, Any]) -> Iterator[pa.Table]:
    """Give the rows piece by piece, one at least: texts of all rows may not fit one array."""
    rows = len(next(iter(columns.values())))
    for begin in range(0, max(rows, 1), _ROWS_OF_A_PIECE):
        piece = slice(begin, begin + _ROWS_OF_A_PIECE)
        yield pa.table({name: column[piece] for name, column in columns.items()})


def _write_csv(path: Path, columns: Mapping[str, Any], quoting: str) -> None:
    with path.open("wb") as file:
        # By hand, since the writer puts quotes around every name.
        file.write(",".join(columns).encode() + b"\n")
        options = pa_csv.WriteOptions(include_header=False, quoting_style=quoting)
        for piece in _pieces(columns):
            pa_csv.write_csv(piece, file, options)


def _read_csv(path: Path, known: Mapping[str, Column], place: Place) -> tuple[list[str], pa.Table]:
    try:
        table = pa_csv.read_csv(
            path,
            # In one thread, since only then the reader knows the numbers of broken rows.
            pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            pa_csv.ParseOptions(newlines_in_values=True),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(known, pa.binary())),
        )
    except pa.ArrowInvalid as reason:
        # The reader's own callback for such rows fails on bytes that are not UTF-8.
        if broken := _BROKEN_ROW.search(str(reason)):
            row, wanted, found = (int(text) for text in broken.groups())
            place.fail(f"has {found} cells, not {wanted}", row - 2)  # the header is its row 1
        raise
    return table.column_names, table


def _read_parquet(
    path: Path, known: Mapping[str, Column], place: Place
) -> tuple[list[str], pa.Table]:
    with pa_parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        return names, file.read(columns=[name for name in names if name in known])


def _one_line(reason: Exception) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= 200 else f"{text[:200]}..."

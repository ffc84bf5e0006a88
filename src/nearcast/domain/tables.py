"""Reading and writing one table as CSV or Parquet, without looking at what its cells mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from nearcast.domain.columns import Column, Place
from nearcast.errors import PlanError, ScenarioError

__all__ = [
    "FORMATS",
    "TableFormat",
    "choose_format",
    "file_label",
    "find_table",
    "read_cells",
    "write_table",
]

FORMATS = ("csv", "parquet")
TableFormat = Literal["csv", "parquet", "auto"]

_LARGEST_CSV_ROWS = 200_000
_BLOCK_BYTES = 1 << 24
"""Bytes that the CSV reader takes at once; no row may be longer."""


def choose_format(wanted: TableFormat, rows: int) -> Literal["csv", "parquet"]:
    """Return the format to write; `auto` means Parquet when the largest table has many rows."""
    if wanted == "auto":
        return "parquet" if rows > _LARGEST_CSV_ROWS else "csv"
    return wanted


def file_label(folder: Path, name: str) -> str:
    """Return how errors name a file: its folder's name and its own."""
    return f"{folder.resolve().name}/{name}"


def find_table(
    folder: Path, name: str, error: type[ScenarioError] | type[PlanError]
) -> Path | None:
    """Return the file of a table, or None where it is missing."""
    found = [path for form in FORMATS if (path := folder / f"{name}.{form}").exists()]
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
        table = _read_csv(path, known, place) if path.suffix == ".csv" else _read_parquet(path)
        names = table.column_names
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
            cells[name] = _one_array(table.column(name))
    return table.num_rows, cells


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table; the suffix of the path is its format.

    CSV is quoted only if a cell needs it. The same columns give the same bytes.
    """
    table = pa.table(dict(columns))
    if path.suffix == ".parquet":
        pa_parquet.write_table(table, path)
        return
    try:
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(quoting_style="none"))
    except pa.ArrowInvalid:
        # A name with a comma, a quote or a line end.
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(quoting_style="needed"))


def _read_csv(path: Path, known: Mapping[str, Column], place: Place) -> pa.Table:
    broken: list[Any] = []

    def stop_at(row: Any) -> str:
        broken.append(row)
        return "error"

    try:
        return pa_csv.read_csv(
            path,
            # In one thread, since only then the reader knows the numbers of broken rows.
            pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=stop_at),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(known, pa.binary())),
        )
    except pa.ArrowInvalid:
        if broken:
            _fail_at_row(broken[0], place)
        raise


def _fail_at_row(row: Any, place: Place) -> NoReturn:
    place.fail(
        f"has {row.actual_columns} cells, not {row.expected_columns}",
        # The reader counts the header as row 1.
        None if row.number is None else row.number - 2,
    )


def _read_parquet(path: Path) -> pa.Table:
    with pa_parquet.ParquetFile(path) as file:
        return file.read()


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _one_line(reason: Exception) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= 200 else f"{text[:200]}..."

"""From the cells of a table file to ids, numbers and flags, with an error for the first bad cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.columns import Column, Kind, Place, check_numbers
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray
from nearcast.domain.tables import file_label, find_table, read_cells
from nearcast.domain.texts import as_texts, is_text, lengthened, shortened
from nearcast.errors import PlanError, ScenarioError

__all__ = ["LoadedTable", "find_ids", "load_optional_table", "load_table"]

_PLAIN_INTEGER = r"\A(?:0|-?[1-9][0-9]{0,18})\z"
_FLAGS = pa.array(["0", "1", "false", "true"])


@dataclass(frozen=True, slots=True, eq=False)
class LoadedTable:
    """The checked columns of a table file, defaults filled in."""

    place: Place
    rows: int
    values: dict[str, Any]
    """Arrow arrays for ids, numpy arrays for numbers and flags."""

    def __getitem__(self, column: str) -> Any:
        return self.values[column]

    def indices(self, column: str, ids: pa.Array, what: str) -> IndexArray:
        """Return the index among `ids` of each cell; `what` they are is for the error."""
        index = find_ids(self.values[column], ids)
        if index.null_count:
            row = _first_true(index.is_null())
            wanted = _shown(self.values[column][row])
            self.place.fail(f"there is no {what} {wanted}", row, column)
        return np.array(index.to_numpy(), dtype=np.int32)


def load_table(
    folder: Path,
    name: str,
    columns: Sequence[Column],
    error: type[ScenarioError] | type[PlanError],
) -> LoadedTable:
    """Read a table of a folder and check every cell by itself."""
    table = load_optional_table(folder, name, columns, error)
    if table is None:
        label = file_label(folder, f"{name}.csv")
        Place(label, error).fail(f"missing (and there is no {name}.parquet)")
    return table


def load_optional_table(
    folder: Path,
    name: str,
    columns: Sequence[Column],
    error: type[ScenarioError] | type[PlanError],
) -> LoadedTable | None:
    """Read a table as `load_table` does; None where it is missing."""
    path = find_table(folder, name, error)
    if path is None:
        return None
    place = Place(file_label(folder, path.name), error)
    rows, cells = read_cells(path, columns, place)
    values = {
        column.name: _convert(cells.get(column.name), column, place, rows) for column in columns
    }
    return LoadedTable(place, rows, values)


def find_ids(values: pa.Array, ids: pa.Array) -> pa.Array:
    """Return the index of each value among the ids, null where it is none of them.

    Integers in one table and strings in the other are compared as text.
    """
    if values.type != ids.type:
        values, ids = as_texts(values), as_texts(ids)
    if values.type != ids.type:
        values, ids = lengthened(values), lengthened(ids)
    return pc.index_in(values, value_set=ids)


def _convert(cells: pa.Array | None, column: Column, place: Place, rows: int) -> Any:
    if cells is None:
        return _all_default(column, rows)
    cells = _as_text_or_value(cells, column, place)
    if column.default is None and cells.null_count:
        place.fail("is empty", _first_true(cells.is_null()), column.name)
    if column.kind is Kind.ID:
        ids = _to_ids(cells, column, place)
        return _integers_if_plain(ids) if place.file.endswith(".csv") else ids
    if column.kind is Kind.FLAG:
        return _to_flags(cells, column, place)
    return _to_numbers(cells, column, place)


def _all_default(column: Column, rows: int) -> Any:
    if column.kind is Kind.ID:
        return pa.repeat(pa.scalar(column.default, pa.string()), rows)
    return np.full(rows, column.default, np.bool_ if column.kind is Kind.FLAG else np.float64)


def _as_text_or_value(cells: pa.Array, column: Column, place: Place) -> pa.Array:
    """Return strings or a primitive type, with null for every empty cell."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pa.types.is_null(kind):
        return cells.cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or is_text(kind):
        # Through bytes, since a cast between types of text would not look at them.
        data = cells.cast(pa.large_binary())
        text = _cast(data, pa.large_string(), "is not text in UTF-8", column, place)
        text = shortened(text)
        if column.kind is not Kind.ID:
            text = pc.utf8_lower(pc.utf8_trim_whitespace(text))
        return pc.if_else(pc.equal(text, ""), None, text)
    return cells


def _to_ids(cells: pa.Array, column: Column, place: Place) -> pa.Array:
    """Return 64-bit integers or strings, as the file has them."""
    if pa.types.is_integer(cells.type):
        try:
            return cells.cast(pa.int64())
        except pa.ArrowInvalid:
            return cells.cast(pa.string())
    if not is_text(cells.type):
        place.fail(f"holds {cells.type}, not strings or integers", column=column.name)
    return pc.fill_null(cells, column.default) if cells.null_count else cells


def _integers_if_plain(ids: pa.Array) -> pa.Array:
    """Return integers if that loses nothing: every id is what its integer looks like."""
    if not pc.all(pc.match_substring_regex(ids, _PLAIN_INTEGER)).as_py():
        return ids
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 64 bits
        return ids


def _to_numbers(cells: pa.Array, column: Column, place: Place) -> FloatArray:
    kind = cells.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (is_number or is_text(kind)):
        place.fail(f"holds {kind}, not numbers", column=column.name)
    numbers = _cast(cells, pa.float64(), "is not a number", column, place)
    if numbers.null_count:
        numbers = pc.fill_null(numbers, column.default)
    # A copy: Arrow's memory is read-only, for which every compiled kernel would exist twice.
    values: FloatArray = np.array(numbers.to_numpy(zero_copy_only=False))
    check_numbers(values, column, place)
    return values


def _to_flags(cells: pa.Array, column: Column, place: Place) -> BoolArray:
    kind = cells.type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or is_text(kind)):
        place.fail(f"holds {kind}, not 0 and 1", column=column.name)
    text = pc.fill_null(cells.cast(pa.string()), "1" if column.default else "0")
    code = pc.index_in(text, value_set=_FLAGS)
    if code.null_count:
        row = _first_true(code.is_null())
        place.fail(f"{_shown(cells[row])} is neither 0 nor 1", row, column.name)
    return code.to_numpy() % 2 == 1  # type: ignore[no-any-return]


def _cast(
    cells: pa.Array, wanted: pa.DataType, complaint: str, column: Column, place: Place
) -> pa.Array:
    def fails(part: pa.Array) -> bool:
        try:
            part.cast(wanted, safe=not pa.types.is_integer(part.type))
        except pa.ArrowInvalid:
            return True
        return False

    try:
        return cells.cast(wanted, safe=not pa.types.is_integer(cells.type))
    except pa.ArrowInvalid:
        row = _first_failure(cells, fails)
        place.fail(f"{_shown(cells[row])} {complaint}", row, column.name)


def _first_failure(cells: pa.Array, fails: Callable[[pa.Array], bool]) -> int:
    """Return the first row that fails, given that some row does; halves the rows each time."""
    begin, end = 0, len(cells)
    while end - begin > 1:
        middle = (begin + end) // 2
        if fails(cells.slice(begin, middle - begin)):
            end = middle
        else:
            begin = middle
    return begin


def _first_true(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _shown(value: pa.Scalar) -> str:
    plain = value.as_py()
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", errors="replace")
    text = repr(plain)
    return text if len(text) <= 60 else f"{text[:60]}..."

"""Reading a file to import: CSV, JSON lines or Parquet, gzip or not, recognised by content."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from nearcast.domain.scenario import FloatArray
from nearcast.domain.texts import shortened
from nearcast.errors import ScenarioError

__all__ = ["SourceTable", "codes_of", "plain_ids", "read_bytes", "read_source"]

_GZIP, _PARQUET, _UTF8_MARK = b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf"
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable:
    """A table and the name of its file for errors."""

    file: str
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def fail(
        self, message: str, row: int | np.integer | None = None, column: str | None = None
    ) -> NoReturn:
        """Raise the error of this file; `row` counts from 0 here and from 1 in the message."""
        number = None if row is None else int(row) + 1
        raise ScenarioError(message, file=self.file, row=number, column=column)

    def find(self, names: Sequence[str], option: str | None = None) -> str | None:
        """Return the column that has one of the names in any case, the first name first.

        With `option` only that column will do, and it is an error if it is not there.
        """
        wanted = [option] if option is not None else names
        columns: list[str] = self.table.column_names
        for name in wanted:
            found = [column for column in columns if column.strip().lower() == name.lower()]
            if len(found) > 1:
                self.fail("appears twice in the header", column=name)
            if found:
                return found[0]
        if option is not None:
            self.fail_without(option)
        return None

    def need(self, names: Sequence[str]) -> str:
        """Return the column that has one of the names; an error if there is none."""
        found = self.find(names)
        return found if found is not None else self.fail_without(" or ".join(names))

    def fail_without(self, wanted: str) -> NoReturn:
        """Raise the error that a column is missing, naming those that are there."""
        found = ", ".join(name.strip() for name in self.table.column_names)
        self.fail(f"no column {wanted}; the columns found are: {found or 'none'}")

    def texts(self, column: str) -> pa.Array:
        """Return the cells as strings without blanks around them; an empty one is an error."""
        cells = self._column(column)
        if pa.types.is_floating(cells.type):
            self.fail("holds numbers with fractions, not names", column=column)
        try:
            cells = pc.utf8_trim_whitespace(cells.cast(pa.string()))
        except pa.ArrowException:
            kind = "bytes that are not UTF-8" if pa.types.is_binary(cells.type) else cells.type
            self.fail(f"holds {kind}, not text", column=column)
        self._refuse(pc.fill_null(pc.equal(cells, ""), True), "is empty", column)
        return cells

    def numbers(self, column: str, lowest: float = -np.inf, highest: float = np.inf) -> FloatArray:
        """Return the cells as finite numbers between two limits; anything else is an error."""
        cells = self._column(column)
        if pa.types.is_binary(cells.type) or pa.types.is_string(cells.type):
            cells = self._parsed(self.texts(column), column)
        elif not any(is_kind(cells.type) for is_kind in _NUMBERS):
            self.fail(f"holds {cells.type}, not numbers", column=column)
        self._refuse(cells.is_null(), "is empty", column)
        values: FloatArray = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        allowed = np.isfinite(values) & (values >= lowest) & (values <= highest)
        if not allowed.all():
            row = int(np.argmin(allowed))
            limits = f" between {lowest:g} and {highest:g}" if np.isfinite(lowest) else ""
            self.fail(f"{values[row]:g} is not a number{limits}", row, column)
        return values

    def _column(self, column: str) -> pa.Array:
        cells = self.table.column(column).combine_chunks()
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        return cells.cast(pa.string()) if pa.types.is_large_string(cells.type) else cells

    def _parsed(self, texts: pa.Array, column: str) -> pa.Array:
        try:
            return texts.cast(pa.float64())
        except pa.ArrowInvalid:
            number = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
            bad = pc.invert(pc.match_substring_regex(texts, number))
            row = pc.index(bad, True).as_py()
            self.fail(f"{texts[row].as_py()!r} is not a number", row, column)

    def _refuse(self, mask: pa.Array, message: str, column: str) -> None:
        row = pc.index(mask, True).as_py()
        if row >= 0:
            self.fail(message, row, column)


def plain_ids(texts: pa.Array) -> pa.Array:
    """Return integers where every text is a plain integer, so that no id changes; else the texts."""
    whole = pc.all(pc.match_substring_regex(texts, _PLAIN_INTEGER)).as_py()
    return texts.cast(pa.int64()) if whole else shortened(texts)


def read_bytes(path: Path) -> bytes:
    """Return what is in a file, unpacked if it is gzip whatever its name."""
    try:
        data = path.read_bytes()
        packed = data.startswith(_GZIP)
        data = gzip.decompress(data) if packed else data
    except FileNotFoundError:
        raise ScenarioError("no such file", file=str(path)) from None
    except (OSError, EOFError, zlib.error) as reason:
        raise ScenarioError(f"cannot be read: {reason}", file=str(path)) from None
    if not data.strip():
        raise ScenarioError("is empty", file=str(path))
    return data


def read_source(path: Path) -> SourceTable:
    """Return the table in a CSV, JSON lines or Parquet file; its cells are checked when used."""
    data = read_bytes(path).removeprefix(_UTF8_MARK)
    source = SourceTable(str(path), pa.table({}))
    try:
        if data.startswith(_PARQUET):
            table = pa_parquet.read_table(pa.BufferReader(data))
        elif b"\0" in data:
            source.fail("is not text")
        elif data.lstrip().startswith(b"{"):
            table = pa_json.read_json(pa.BufferReader(data))
        else:
            table = _read_csv(data, source)
    except pa.ArrowException as reason:
        # Arrow counts JSON rows from 0.
        numbered = re.search(r"in row (\d+)", str(reason))
        message = " ".join(str(reason).split())[:200]
        source.fail(f"cannot be read: {message}", int(numbered[1]) if numbered else None)
    if not table.num_rows:
        source.fail("has no rows of data")
    return SourceTable(source.file, table)


def _read_csv(data: bytes, source: SourceTable) -> pa.Table:
    """Return all cells as bytes: what no one asks for need not even be text."""
    broken: list[Any] = []

    def stop_at(row: Any) -> str:
        broken.append(row)
        return "error"

    data = data.lstrip(b"\r\n")
    first_line = data.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    separator = max(",;\t", key=first_line.count)
    names = next(csv.reader(io.StringIO(first_line.rstrip("\r")), delimiter=separator))
    try:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            # In one thread, since only then the reader knows the numbers of broken rows.
            pa_csv.ReadOptions(
                use_threads=False, block_size=1 << 24, column_names=names, skip_rows=1
            ),
            pa_csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=stop_at
            ),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        )
    except pa.ArrowInvalid:
        if broken and broken[0].number is not None:
            message = f"has {broken[0].actual_columns} cells, not {broken[0].expected_columns}"
            source.fail(message, broken[0].number - 2)
        raise


def codes_of(texts: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return a number for each text, counted from 0 in order of appearance, and the texts."""
    encoded = texts.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary

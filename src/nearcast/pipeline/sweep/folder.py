"""The folder of a sweep: all that is known of its cells, so that a killed sweep goes on."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.errors import OutputError
from nearcast.pipeline.sweep.cell import SweepCell
from nearcast.pipeline.sweep.table import FAILURE_SCHEMA, RESULT_SCHEMA

__all__ = ["FAILURES_FILE", "RESULTS_FILE", "SweepFolder", "write_whole"]

RESULTS_FILE = "results.parquet"
FAILURES_FILE = "failures.parquet"
_DONE, _FAILED, _BEGUN = ".parquet", ".failed.parquet", ".begun"


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """A folder that the driver and all workers see under the same path.

    A cell leaves ``cells/<cell_id>.parquet`` when it is done, ``cells/<cell_id>.failed.parquet``
    when it failed, and has a mark ``cells/<cell_id>.begun`` while it runs.
    """

    root: Path

    @property
    def cells(self) -> Path:
        """Where each cell's own files are."""
        return self.root / "cells"

    def prepare(self, cells: Sequence[SweepCell]) -> list[SweepCell]:
        """Make the folder ready and return the cells that are still to be run.

        Failures and marks of an earlier run are removed, and results that cannot be read.

        Raises
        ------
        OutputError
            When the folder cannot be written.
        """
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
            waiting = [cell for cell in cells if self.result(cell) is None]
            for cell in waiting:
                for ending in (_DONE, _FAILED, _BEGUN):
                    self._path(cell, ending).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{self.root}: cannot be written: {error.strerror}") from error
        return waiting

    def begin(self, cell: SweepCell) -> None:
        """Mark a cell as under way."""
        self._path(cell, _BEGUN).touch()

    def end(self, cell: SweepCell, row: pa.Table) -> None:
        """Write a cell's result or failure and take its mark away."""
        is_done = row.schema.equals(RESULT_SCHEMA)
        write_whole(row, self._path(cell, _DONE if is_done else _FAILED))
        self._path(cell, _BEGUN).unlink(missing_ok=True)

    def is_settled(self, cell: SweepCell) -> bool:
        """Return whether a cell has a result or has failed."""
        return self._path(cell, _DONE).exists() or self._path(cell, _FAILED).exists()

    def is_begun(self, cell: SweepCell) -> bool:
        """Return whether a cell was begun and did not come to an end."""
        return self._path(cell, _BEGUN).exists() and not self.is_settled(cell)

    def result(self, cell: SweepCell) -> pa.Table | None:
        """Return a cell's row; None where there is none or it cannot be read."""
        return self._read(cell, _DONE, RESULT_SCHEMA)

    def failure(self, cell: SweepCell) -> pa.Table | None:
        """Return what is known of a cell's failure."""
        return self._read(cell, _FAILED, FAILURE_SCHEMA)

    def count(self, cells: Iterable[SweepCell]) -> tuple[int, int, list[SweepCell]]:
        """Return how many cells are done, how many failed, and those under way."""
        names = set(os.listdir(self.cells))
        done = failed = 0
        under_way = []
        for cell in cells:
            key = cell.cell_id
            if key + _DONE in names:
                done += 1
            elif key + _FAILED in names:
                failed += 1
            elif key + _BEGUN in names:
                under_way.append(cell)
        return done, failed, under_way

    def _path(self, cell: SweepCell, ending: str) -> Path:
        return self.cells / f"{cell.cell_id}{ending}"

    def _read(self, cell: SweepCell, ending: str, schema: pa.Schema) -> pa.Table | None:
        try:
            # One file, not a data set: a folder of that name would be no result.
            row = pq.ParquetFile(self._path(cell, ending)).read()
        except (OSError, pa.ArrowException):
            return None
        fits = row.schema.equals(schema) and row["cell_id"].to_pylist() == [cell.cell_id]
        return row if fits else None


def write_whole(table: pa.Table, path: Path) -> None:
    """Write a Parquet file whole or not at all, whoever else writes it."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        pq.write_table(table, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

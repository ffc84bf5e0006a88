"""A Parquet table that grows by batches, each of them once, whatever is killed when.

Spark repeats the last batch after a kill, with the same number and the same rows: its file is then
written again under the same name. Files of many batches are merged, so that they do not become too
many; a batch that is in a merged file was committed long ago.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from nearcast.pipeline.stream.stream_folder import disk_errors

__all__ = ["BatchFiles"]

_MERGE_AFTER = 64
_LARGEST_BYTES = 64 << 20
"""A merged file of this size is not merged again."""


class BatchFiles:
    """One table; files are called by their first and last batch.

    Parameters
    ----------
    merge_after
        How many small files become one.
    """

    def __init__(self, folder: Path, schema: pa.Schema, merge_after: int = _MERGE_AFTER) -> None:
        self._folder, self._schema, self._merge_after = folder, schema, merge_after
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for merged in folder.glob(".*.merged"):  # a kill came while its parts were removed
                self._take_over(merged)

    def write(self, batch: int, rows: Sequence[dict[str, object]]) -> None:
        """Keep the rows of a batch; those of an earlier try of it are replaced.

        Raises
        ------
        OutputError
            When the disk refuses.
        """
        path = self._folder / _name(batch, batch)
        with disk_errors(self._folder):
            if not rows:
                path.unlink(missing_ok=True)
                return
            self._write(path, pa.Table.from_pylist(list(rows), self._schema))
            self._merge(before=batch)

    def _write(self, path: Path, table: pa.Table) -> None:
        partial = path.with_name(f".{path.name}.tmp")
        with partial.open("wb") as file:
            parquet.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def _merge(self, before: int) -> None:
        """Make one file of many that are before a batch, hence committed.

        The merged file shows up when its parts are gone: a reader may miss rows for a moment, but
        none is there twice.
        """
        parts = sorted(self._folder.glob("[0-9]*.parquet"))
        parts = [
            one for one in parts if _last(one) < before and one.stat().st_size < _LARGEST_BYTES
        ]
        if len(parts) < self._merge_after:
            return
        tables = [parquet.read_table(one, partitioning=None) for one in parts]
        name = _name(_first(parts[0]), _last(parts[-1]))
        merged = self._folder / f".{name}.merged"
        self._write(merged, pa.concat_tables(tables))
        self._take_over(merged)

    def _take_over(self, merged: Path) -> None:
        name = merged.name.removeprefix(".").removesuffix(".merged")
        first, last = _first(Path(name)), _last(Path(name))
        for part in self._folder.glob("[0-9]*.parquet"):
            if first <= _first(part) and _last(part) <= last:
                part.unlink()
        merged.replace(self._folder / name)


def _name(first: int, last: int) -> str:
    return f"{first:010d}-{last:010d}.parquet"


def _first(path: Path) -> int:
    return int(path.name[:10])


def _last(path: Path) -> int:
    return int(path.name[11:21])

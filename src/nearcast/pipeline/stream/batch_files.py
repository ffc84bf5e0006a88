"""A Parquet table that grows by batches, each of them once, whatever is killed when.

Spark repeats the last batch after a kill, with the same number and the same rows: its file is then
written again under the same name. Files of many batches are merged, so that they do not become too
many; a batch that is in a merged file was committed long ago.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from nearcast.errors import OutputError
from nearcast.pipeline.stream.stream_folder import disk_errors

__all__ = ["BatchFiles", "rows_after"]

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
        name = _whole_name(merged)
        with _locked(self._folder, fcntl.LOCK_EX):
            for part in self._folder.glob("[0-9]*.parquet"):
                if _is_within(part, name):
                    part.unlink()
            merged.replace(self._folder / name)


def rows_after(folder: Path, batch: int) -> list[dict[str, Any]]:
    """Return the rows of later batches than one, in order; none is hidden while files are merged.

    Parameters
    ----------
    folder
        Of a table with a column ``batch``, perhaps written at this moment.

    Raises
    ------
    OutputError
        When it cannot be read.
    """
    with disk_errors(folder), _locked(folder, fcntl.LOCK_SH):
        merged = list(folder.glob(".*.merged"))
        whole = [
            part
            for part in folder.glob("[0-9]*.parquet")
            if not any(_is_within(part, _whole_name(one)) for one in merged)
        ]
        files = [one for one in whole if _last(one) > batch]
        files += [one for one in merged if _last(Path(_whole_name(one))) > batch]
        tables = [_read(one) for one in files]
    if not tables:
        return []
    rows = pa.concat_tables(tables)
    later = rows.filter(pc.greater(rows["batch"], batch))
    found: list[dict[str, Any]] = later.to_pylist()
    return sorted(found, key=lambda row: row["batch"])


def _read(file: Path) -> pa.Table:
    try:
        return parquet.read_table(file, partitioning=None)
    except pa.ArrowInvalid as error:
        raise OutputError(f"{file}: is not a file of this table: {error}") from None


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Keep readers from files that are being merged."""
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, how)
        yield


def _whole_name(merged: Path) -> str:
    return merged.name.removeprefix(".").removesuffix(".merged")


def _is_within(part: Path, name: str) -> bool:
    return _first(Path(name)) <= _first(part) and _last(part) <= _last(Path(name))


def _name(first: int, last: int) -> str:
    return f"{first:010d}-{last:010d}.parquet"


def _first(path: Path) -> int:
    return int(path.name[:10])


def _last(path: Path) -> int:
    return int(path.name[11:21])

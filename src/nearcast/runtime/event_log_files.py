"""The segments of an event log: whole files only, the oldest ones removed.

A segment is written to a name with a dot before it, which Spark and the pipeline pass over, and
renamed when it is on the disk.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearcast.errors import ConfigError
from nearcast.runtime.helper_scheduling import give_way

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TABLES", "Retention", "Segment", "SegmentFiles"]

TABLES = ("publications", "notifications")
"""The tables of an event log: folders of segments."""

_ROWS_AT_ONCE = 5_000
"""Rows of a row group: one or two milliseconds of work, after which others may have the core."""
_STAMP = "%Y%m%dT%H%M%S%fZ"


class Segment(NamedTuple):
    """A whole file."""

    started_s: float
    number: int
    path: Path
    size_bytes: int


class Retention:
    """Removes the oldest segments of a server, of all tables, beyond a size and an age.

    The newest one always stays, and what is being written is not yet known here.

    Parameters
    ----------
    segments
        Those that are there.
    keep_bytes, keep_s
        What stays; infinity: all of it.
    """

    def __init__(self, segments: Iterable[Segment], keep_bytes: float, keep_s: float) -> None:
        self._keep_bytes, self._keep_s = keep_bytes, keep_s
        self._segments = list(segments)
        heapq.heapify(self._segments)
        self.size_bytes = sum(one.size_bytes for one in self._segments)
        """What is kept."""

    def add(self, segment: Segment) -> None:
        """Note a file that was written."""
        heapq.heappush(self._segments, segment)
        self.size_bytes += segment.size_bytes

    def remove_old(self, now_s: float) -> int:
        """Remove what is beyond the limits and return how many files; OSError: the disk refused."""
        removed = 0
        while len(self._segments) > 1 and (
            self.size_bytes > self._keep_bytes or now_s - self._segments[0].started_s > self._keep_s
        ):
            oldest = self._segments[0]
            oldest.path.unlink(missing_ok=True)
            heapq.heappop(self._segments)
            self.size_bytes -= oldest.size_bytes
            removed += 1
        return removed


class SegmentFiles:
    """One server's files ``<server>-<start, UTC>-<number>.parquet`` in a folder.

    Other servers may write to the same folder; their files are left alone. What a crash left
    half written is removed here, when the server starts again.
    """

    def __init__(self, folder: Path, server: str) -> None:
        if not re.fullmatch(r"[^\W_][\w.-]*", server):
            raise ConfigError(
                f"server {server!r}: with an event log, an id has letters, digits and _ . - only, "
                "a letter or digit first, since files are named after it"
            )
        self._folder, self._server = folder, server
        self._own_name = re.compile(rf"{re.escape(server)}-(\d{{8}}T\d{{12}}Z)-(\d+)\.parquet")
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if self._own_name.fullmatch(path.name.removeprefix(".")) and path.name[0] == ".":
                path.unlink()

    def write(self, table: pa.Table, started_s: float, number: int) -> Segment:
        """Write a segment whole or not at all.

        Raises
        ------
        OSError
            When the disk refuses; the same segment may be tried again.
        """
        import pyarrow.parquet as parquet

        started = datetime.fromtimestamp(started_s, UTC).strftime(_STAMP)
        whole = self._folder / f"{self._server}-{started}-{number:06}.parquet"
        partial = whole.with_name(f".{whole.name}")
        try:
            with partial.open("wb") as file:
                with parquet.ParquetWriter(file, table.schema) as writer:
                    for start in range(0, len(table), _ROWS_AT_ONCE):
                        writer.write_table(table.slice(start, _ROWS_AT_ONCE))
                        give_way()
                file.flush()
                # Else a power cut might leave the name and not the data.
                os.fsync(file.fileno())
                size_bytes = file.tell()
            partial.rename(whole)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        return Segment(started_s, number, whole, size_bytes)

    def segments(self) -> Iterator[Segment]:
        """Return this server's files."""
        for path in self._folder.iterdir():
            if match := self._own_name.fullmatch(path.name):
                started = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                size_bytes = path.stat().st_size
                yield Segment(started.timestamp(), int(match[2]), path, size_bytes)

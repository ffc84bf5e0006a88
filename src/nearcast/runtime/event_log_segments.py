"""Rows into segments, segments into files; what the disk refuses is kept and tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from nearcast.runtime.event_log_files import Retention, SegmentFiles
from nearcast.runtime.event_log_tables import to_batches

__all__ = ["SegmentWriter", "Written"]


@dataclass(slots=True)
class Written:
    """What was written."""

    rows: int = 0
    segments: int = 0
    removed: int = 0
    """Old segments that had to go for them."""
    error: OSError | None = None
    """Why the rest is still there: the disk refused."""


class _Segment(NamedTuple):
    table: str
    started_s: float
    number: int
    batches: list[pa.RecordBatch]

    @property
    def rows(self) -> int:
        return sum(map(len, self.batches))


class SegmentWriter:
    """The open segment of each table, and those that ended and are not yet written.

    Parameters
    ----------
    files
        Where segments go, by table.
    retention
        Removes old ones.
    segment_rows
        Rows that end a segment.
    clock
        Unix time, for the names of segments.
    """

    def __init__(
        self,
        files: Mapping[str, SegmentFiles],
        retention: Retention,
        segment_rows: int,
        clock: Callable[[], float],
    ) -> None:
        self._files, self._segment_rows, self._clock = files, segment_rows, clock
        self._retention = retention
        self._open: dict[str, _Segment] = {}
        self._ended: deque[_Segment] = deque()
        self._numbers = 0

    @property
    def rows(self) -> int:
        """Rows in memory."""
        return sum(one.rows for one in (*self._open.values(), *self._ended))

    def take(self, table: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows to the segments, end those that are full; return how many were dropped."""
        dropped = len(rows)
        while rows:
            segment = self._open.get(table) or self._begin(table)
            some = rows[: self._segment_rows - segment.rows]
            rows = rows[len(some) :]
            batches = to_batches(some, table)
            segment.batches.extend(batches)
            dropped -= sum(map(len, batches))
            if segment.rows >= self._segment_rows:
                self._ended.append(self._open.pop(table))
        return dropped

    def end(self) -> None:
        """End the open segments."""
        self._ended.extend(segment for segment in self._open.values() if segment.rows)
        self._open.clear()

    def write(self) -> Written:
        """Write what has ended, oldest first, until the disk refuses."""
        done = Written()
        try:
            while self._ended:
                segment = self._ended[0]
                files = self._files[segment.table]
                table = pa.Table.from_batches(segment.batches)
                written = files.write(table, segment.started_s, segment.number)
                self._ended.popleft()
                done.rows += segment.rows
                done.segments += 1
                self._retention.add(written)
                done.removed += self._retention.remove_old(self._clock())
        except OSError as error:
            done.error = error
        return done

    def drop(self) -> int:
        """Forget what has ended and is not written; return how many rows that were."""
        dropped = sum(segment.rows for segment in self._ended)
        self._ended.clear()
        return dropped

    def _begin(self, table: str) -> _Segment:
        self._numbers += 1
        segment = self._open[table] = _Segment(table, self._clock(), self._numbers, [])
        return segment

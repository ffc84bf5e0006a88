"""Rows into segments, segments into files; what the disk refuses is kept and tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from nearcast.runtime.event_log_files import SegmentFiles
from nearcast.runtime.event_log_tables import SCHEMAS, to_batches
from nearcast.server.log_rows import LogRow, NotificationRow, PublicationRow

__all__ = ["Counts", "SegmentWriter"]

_ROW_TYPES = {"publications": PublicationRow, "notifications": NotificationRow}


@dataclass(slots=True)
class Counts:
    """What became of rows in memory."""

    written: int = 0
    dropped: int = 0
    segments: int = 0
    error: OSError | None = None
    """Why the rest is still there: the disk refused."""


class _Segment(NamedTuple):
    kind: str
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
    segment_rows
        Rows that end a segment.
    clock
        Unix time, for the names of segments.
    """

    def __init__(
        self, files: Mapping[str, SegmentFiles], segment_rows: int, clock: Callable[[], float]
    ) -> None:
        self._files, self._segment_rows, self._clock = files, segment_rows, clock
        self._open: dict[str, _Segment] = {}
        self._ended: deque[_Segment] = deque()
        self._numbers = 0

    def take(self, rows: Sequence[LogRow]) -> Counts:
        """Add rows to the segments and end those that are full."""
        dropped = len(rows)
        for kind, row_type in _ROW_TYPES.items():
            own = [row for row in rows if type(row) is row_type]
            while own:
                segment = self._open.get(kind) or self._begin(kind)
                some = own[: self._segment_rows - segment.rows]
                own = own[len(some) :]
                batches = to_batches(some, SCHEMAS[kind])
                segment.batches.extend(batches)
                dropped -= sum(map(len, batches))
                if segment.rows >= self._segment_rows:
                    self._ended.append(self._open.pop(kind))
        return Counts(dropped=dropped)

    def end(self) -> None:
        """End the open segments."""
        self._ended.extend(segment for segment in self._open.values() if segment.rows)
        self._open.clear()

    def write(self) -> Counts:
        """Write what has ended, oldest first, until the disk refuses."""
        counts = Counts()
        try:
            while self._ended:
                segment = self._ended[0]
                files = self._files[segment.kind]
                table = pa.Table.from_batches(segment.batches)
                files.write(table, segment.started_s, segment.number)
                self._ended.popleft()
                counts.written += segment.rows
                counts.segments += 1
                files.remove_old(self._clock())
        except OSError as error:
            counts.error = error
        return counts

    def drop(self) -> Counts:
        """Forget what has ended and is not written."""
        dropped = sum(segment.rows for segment in self._ended)
        self._ended.clear()
        return Counts(dropped=dropped)

    def _begin(self, kind: str) -> _Segment:
        self._numbers += 1
        segment = self._open[kind] = _Segment(kind, self._clock(), self._numbers, [])
        return segment

"""The event log of a server: rows of its loop into Parquet segments, by a thread.

``FOLDER/publications`` and ``FOLDER/notifications`` may be read at any time, by Spark, the
pipeline or `event_log_tables`: whatever is there is whole. A segment is kept in memory until it
ends, so a kill of the server loses the rows since the last one ended, and nothing else.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from nearcast.errors import ConfigError, OutputError
from nearcast.runtime.event_log_files import SegmentFiles
from nearcast.server.log_rows import LogRow

if TYPE_CHECKING:
    from nearcast.runtime.event_log_segments import Counts

__all__ = ["EventLog", "EventLogCounters"]

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 500
"""Rows that wait before the thread makes them smaller: many small objects slow down the loop."""


@dataclass(slots=True)
class EventLogCounters:
    """What became of the rows until now."""

    rows_written: int = 0
    rows_dropped: int = 0
    """Lost: too many in memory, added after the end, or with a value that no column holds."""
    rows_held: int = 0
    """In memory: of the segments that go on, or while the disk refuses."""
    segments_written: int = 0
    errors: int = 0
    """Times that the disk refused."""
    last_error: str | None = None
    """Why it refuses; None while it works."""


class EventLog:
    """Takes rows from the loop and writes them in the background; close it at the end.

    Parameters
    ----------
    folder
        Where the tables are; servers may share it.
    server
        The id of this server, in the names of its files.
    segment_rows, segment_s
        A file ends with so many rows, or after so long: that is how late a row is in a file.
    keep_segments, keep_hours
        Files of each table that stay, and for how long; None: all, for ever.
    most_rows
        Rows in memory while the disk refuses; others are dropped.
    clock
        Unix time, for the names.
    open_files
        Makes the files of a table; a test gives a disk that fails.

    Raises
    ------
    ConfigError
        When a setting is not positive, or the id does not fit names of files.
    OutputError
        When the folder cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        server: str,
        *,
        segment_rows: int = 100_000,
        segment_s: float = 10.0,
        keep_segments: int | None = None,
        keep_hours: float | None = None,
        most_rows: int = 1_000_000,
        clock: Callable[[], float] = time.time,
        open_files: Callable[..., SegmentFiles] = SegmentFiles,
    ) -> None:
        # Arrow and pandas take a second: now, and not while the loop serves clients.
        from nearcast.runtime.event_log_segments import SegmentWriter
        from nearcast.runtime.event_log_tables import SCHEMAS

        limits = {"segment_rows": segment_rows, "segment_s": segment_s, "most_rows": most_rows}
        keep = {"keep_segments": keep_segments, "keep_hours": keep_hours}
        for name, value in {**limits, **keep}.items():
            if value is not None and not value > 0:
                raise ConfigError(f"{name} of the event log must be positive, not {value}")
        self._segment_s, self._most_rows = segment_s, most_rows
        try:
            files = {kind: open_files(Path(folder) / kind, server, **keep) for kind in SCHEMAS}
        except OSError as reason:
            raise OutputError(f"{folder}: cannot be written: {reason.strerror}") from reason
        self._writer = SegmentWriter(files, segment_rows, clock)
        self.counters = EventLogCounters()
        self._changed = threading.Condition()
        self._waiting: list[LogRow] = []
        self._flushes_wanted = self._flushes_done = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="event-log", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, rows: Sequence[LogRow]) -> None:
        """Take rows, from any thread; never waits for the disk and never fails."""
        with self._changed:
            room = 0 if self._is_closed else self._most_rows - self.counters.rows_held
            taken = rows if len(rows) <= room else rows[:room]
            self._waiting.extend(taken)
            self.counters.rows_held += len(taken)
            self.counters.rows_dropped += len(rows) - len(taken)
            if len(self._waiting) >= _ROWS_AT_ONCE:
                self._changed.notify_all()

    def flush(self) -> None:
        """End the segments now, and wait until they are on the disk or it refused."""
        with self._changed:
            self._flushes_wanted += 1
            wanted = self._flushes_wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._flushes_done >= wanted or self._is_closed)

    def close(self) -> None:
        """Write the rest and end the thread; what the disk refuses now is lost."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        # Servers that started together must not all write together for ever.
        ends_at = time.monotonic() + self._segment_s * random.uniform(0.3, 1.0)
        is_last = False
        while not is_last:
            with self._changed:
                self._changed.wait_for(self._has_work, max(0.0, ends_at - time.monotonic()))
                rows, self._waiting = self._waiting, []
                flushes, is_last = self._flushes_wanted, self._is_closed
            self._count(self._writer.take(rows))
            is_end = is_last or flushes > self._flushes_done or time.monotonic() >= ends_at
            if is_end:
                self._writer.end()
                ends_at = time.monotonic() + self._segment_s
            if is_end or self.counters.last_error is None:  # a disk that refuses gets a pause
                counts = self._writer.write()
                self._note(counts.error)
                self._count(counts)
            with self._changed:
                self._flushes_done = flushes
                self._changed.notify_all()
        lost = self._writer.drop()
        if lost.dropped:
            self._count(lost)
            logger.error("event log: %d rows are lost, the disk refused them", lost.dropped)

    def _has_work(self) -> bool:
        is_asked = self._is_closed or self._flushes_wanted > self._flushes_done
        return is_asked or len(self._waiting) >= _ROWS_AT_ONCE

    def _note(self, error: OSError | None) -> None:
        if error is not None:
            self.counters.errors += 1
            if self.counters.last_error is None:
                logger.warning("event log: %s; trying again, the server goes on", error)
        self.counters.last_error = None if error is None else str(error)

    def _count(self, counts: Counts) -> None:
        with self._changed:
            self.counters.rows_written += counts.written
            self.counters.rows_dropped += counts.dropped
            self.counters.rows_held -= counts.written + counts.dropped
            self.counters.segments_written += counts.segments

"""The event log of a server: rows of its loop into Parquet segments, by a process of its own.

``FOLDER/publications`` and ``FOLDER/notifications`` may be read at any time, by Spark, the
pipeline or `event_log_tables`: whatever is there is whole. A segment is kept in memory until it
ends. A kill of the server alone loses the rows of the last tenth of a second (with Kafka: hundredth), which were not yet
handed over; a kill of both, or of the machine, loses the rows since the last segment ended too.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import NO_ROOM, ConfigError, OutputError, RestartNeededError
from nearcast.links.kafka_sink import SinkCounts
from nearcast.runtime.event_log_files import TABLES, SegmentFiles
from nearcast.runtime.event_log_frames import (
    Counts,
    EventLogSettings,
    Flush,
    Rows,
    decode_counts,
    frame,
)
from nearcast.runtime.helper_process import Helper, HelperProcess, Launch

__all__ = ["EventLog", "EventLogCounters"]

_log = logging.getLogger(__name__)
_HAND_OVER_S = 0.1
_HAND_OVER_TO_KAFKA_S = 0.01
"""Services that read Kafka answer clients, who wait."""
_ROWS_AT_ONCE = 256
"""Encoding more at a time would hold up the loop."""
_MOST_UNSENT_BYTES = 32 << 20
_RESTART_AFTER_S = 5.0
_END_WITHIN_S = 60.0

Row = tuple[Any, ...]


@dataclass(slots=True)
class EventLogCounters:
    """What became of the rows until now."""

    rows_written: int = 0
    rows_dropped: int = 0
    """Lost: too many in memory, added after the end, with a value that no column holds, or with
    the process that had them."""
    rows_held: int = 0
    """In memory: of the segments that go on, or while the disk refuses."""
    segments_written: int = 0
    segments_removed: int = 0
    """Because there were too many or they were too old."""
    errors: int = 0
    """Times that the disk refused."""
    last_error: str | None = None
    """Why it refuses; None while it works."""
    kafka_sent: int = 0
    kafka_waiting: int = 0
    """On the disk: Kafka has not acknowledged them."""
    kafka_dropped: int = 0
    """The backlog was full, or Kafka will never take them."""
    kafka_errors: int = 0
    kafka_last_error: str | None = None


class EventLog:
    """Takes rows from the loop; a process writes them. `start` it, and `close` it at the end.

    Parameters
    ----------
    settings
        How it is written; servers may share a folder.
    most_rows
        Rows in memory, here and in the process; others are dropped.
    launch
        Starts the other side; a test gives one with a disk that fails.

    Raises
    ------
    ConfigError
        When a setting is not positive, or the id does not fit names of files.
    OutputError
        When the folder cannot be made.
    """

    def __init__(
        self,
        settings: EventLogSettings,
        *,
        most_rows: int = 1_000_000,
        launch: Launch | None = None,
    ) -> None:
        limits = {"segment_rows": settings.segment_rows, "segment_s": settings.segment_s}
        keep = {"keep_mb": settings.keep_mb, "keep_days": settings.keep_days}
        for name, value in {**limits, **keep, "most_rows": most_rows}.items():
            if value is not None and not value > 0:
                raise ConfigError(f"{name} of the event log must be positive, not {value}")
        try:
            for table in TABLES if settings.files else ():  # complains; clears what a crash left
                SegmentFiles(Path(settings.folder) / table, settings.server)
        except OSError as reason:
            kind = RestartNeededError if reason.errno in NO_ROOM else OutputError
            raise kind(f"{settings.folder}: cannot be written: {reason.strerror}") from reason
        self._settings, self._most_rows = settings, most_rows
        self._launch = launch or self._start_process
        self.counters = EventLogCounters()
        self._publications: list[Row] = []
        self._notifications: list[Row] = []
        self._timer: TimerHandle | None = None
        self._helper: Helper | None = None
        self._start_at = 0.0
        self._told = Counts()
        """What the process that runs now has told."""
        self._flushes: list[asyncio.Future[None]] = []
        self._is_closed = False

    def start(self) -> None:
        """Start the process; the loop must run."""
        self._loop = asyncio.get_running_loop()
        self._told, self._ended = Counts(), asyncio.Event()
        try:
            self._helper = self._launch(self._on_frames, self._on_lost)
        except OSError as error:
            self._on_lost(f"it does not start: {error}")

    def add(self, publications: Sequence[Row], notifications: Sequence[Row]) -> None:
        """Take rows, fields of `PublicationRow` and `NotificationRow`; never waits or fails."""
        self._publications += publications
        self._notifications += notifications
        if len(self._publications) + len(self._notifications) >= _ROWS_AT_ONCE or self._is_closed:
            self._hand_over()
        elif self._timer is None:
            is_read_now = self._settings.kafka is not None
            wait_s = _HAND_OVER_TO_KAFKA_S if is_read_now else _HAND_OVER_S
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    async def flush(self) -> None:
        """End the segments now, and wait until they are on the disk or it refused."""
        self._hand_over()
        if self._helper is not None and not self._is_closed:
            flushed = self._loop.create_future()
            self._flushes.append(flushed)
            self._helper.link.send(frame(Flush()))
            await flushed

    async def close(self) -> None:
        """Write the rest and end the process; what the disk refuses now is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_closed:
            self._hand_over()
            self._is_closed = True
            if self._helper is not None:
                self._helper.link.end()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_WITHIN_S):
                        await self._ended.wait()
                await self._helper.wait(_END_WITHIN_S)

    def _start_process(
        self, on_frames: Callable[[list[bytes]], None], on_lost: Callable[[str], None]
    ) -> HelperProcess:
        arguments = [msgspec.json.encode(self._settings).decode()]
        module = "nearcast.runtime.event_log_process"
        return HelperProcess(self._loop, module, arguments, on_frames, on_lost)

    def _on_timer(self) -> None:
        self._timer = None
        self._hand_over()

    def _hand_over(self) -> None:
        publications, self._publications = self._publications, []
        notifications, self._notifications = self._notifications, []
        rows = len(publications) + len(notifications)
        if not rows:
            return
        if self._helper is None and not self._is_closed and self._loop.time() >= self._start_at:
            self.start()
        counters, helper = self.counters, self._helper
        room = self._most_rows - counters.rows_held
        if helper is None or self._is_closed or helper.link.unsent_bytes > _MOST_UNSENT_BYTES:
            room = 0
        if rows > room:
            counters.rows_dropped += rows - room
            publications = publications[:room]
            notifications = notifications[: room - len(publications)]
            rows = room
        if helper is None or not rows:
            return
        counters.rows_held += rows
        try:
            data = frame(Rows(publications, notifications))
        except (ValueError, OverflowError):
            # a client chose the value, and the rows of others should not suffer
            publications, notifications = _sound(publications), _sound(notifications)
            sound = len(publications) + len(notifications)
            counters.rows_dropped += rows - sound
            counters.rows_held -= rows - sound
            data = frame(Rows(publications, notifications))
        helper.link.send(data)

    def _on_frames(self, frames: list[bytes]) -> None:
        for data in frames:
            counts, before, counters = decode_counts(data), self._told, self.counters
            self._told = counts
            written, dropped = counts.written - before.written, counts.dropped - before.dropped
            counters.rows_written += written
            counters.rows_dropped += dropped
            counters.rows_held -= written + dropped
            counters.segments_written += counts.segments - before.segments
            counters.segments_removed += counts.removed - before.removed
            counters.errors += counts.errors - before.errors
            if counts.last_error is not None and counters.last_error is None:
                _log.warning("event log: %s; trying again, the server goes on", counts.last_error)
            counters.last_error = counts.last_error
            self._note_kafka(counts.kafka, before.kafka)
            for _ in range(counts.flushes - before.flushes):
                _settle(self._flushes.pop(0))
            if dropped and self._is_closed:
                _log.error("event log: %d rows are lost, the disk refused them", dropped)

    def _note_kafka(self, counts: SinkCounts, before: SinkCounts) -> None:
        counters = self.counters
        counters.kafka_sent += counts.sent - before.sent
        counters.kafka_dropped += counts.dropped - before.dropped
        counters.kafka_errors += counts.errors - before.errors
        counters.kafka_waiting = counts.waiting
        if counts.last_error is not None and counters.kafka_last_error is None:
            _log.warning("kafka: %s; %d records wait", counts.last_error, counts.waiting)
        counters.kafka_last_error = counts.last_error

    def _on_lost(self, reason: str) -> None:
        """Go on without the process for a while; what it held is lost."""
        self._ended.set()
        for one in self._flushes:
            _settle(one)
        self._flushes.clear()
        if self._is_closed:
            return
        counters = self.counters
        if self._helper is not None:
            self._helper.kill()
        self._helper, self._start_at = None, self._loop.time() + _RESTART_AFTER_S
        counters.rows_dropped += counters.rows_held
        counters.errors += 1
        _log.error("event log: %s; %d rows are lost", reason, counters.rows_held)
        counters.rows_held = 0


def _settle(flushed: asyncio.Future[None]) -> None:
    if not flushed.done():  # who asked for it may have gone
        flushed.set_result(None)


def _sound(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that can be encoded."""
    sound = []
    for row in rows:
        try:
            msgspec.msgpack.encode(row)
        except (ValueError, OverflowError):
            continue
        sound.append(row)
    return sound

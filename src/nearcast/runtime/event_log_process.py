"""The process that turns the rows of a server into Parquet segments.

Started by `event_log` as ``python -m nearcast.runtime.event_log_process``. It loads Arrow with its
first rows. It ends with the stream from the server, after all that came is written.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from nearcast.links.kafka_records import notification_record, publication_record
from nearcast.links.kafka_sink import KafkaSink
from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.event_log_files import TABLES, Retention, SegmentFiles
from nearcast.runtime.event_log_frames import (
    Counts,
    EventLogSettings,
    Flush,
    Rows,
    decode_command,
    frame,
)
from nearcast.runtime.helper_scheduling import give_way, yield_to_server
from nearcast.runtime.pipe_frames import FrameReader

if TYPE_CHECKING:
    from nearcast.runtime.event_log_segments import SegmentWriter

__all__ = ["serve"]

_ROWS_AT_ONCE = 250
"""Rows that wait as they are before they become columns, which are smaller: half a millisecond."""
_NICENESS = 5
"""Analysis can wait; messages cannot."""
_KAFKA_POLL_S = 0.02


class _EventLogProcess:
    def __init__(
        self,
        sock: socket.socket,
        settings: EventLogSettings,
        open_files: Callable[..., SegmentFiles],
        clock: Callable[[], float],
    ) -> None:
        self._socket, self._settings, self._clock = sock, settings, clock
        self._files = {
            table: open_files(Path(settings.folder) / table, settings.server)
            for table in (TABLES if settings.files else ())
        }
        self._kafka: KafkaSink | None = None
        if settings.kafka is not None:
            self._kafka = KafkaSink(settings.kafka, Path(settings.backlog))
        self._writer: SegmentWriter | None = None
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
        self._counts = Counts()
        self._told = Counts()

    def run(self) -> None:
        """Work until the stream ends."""
        reader, poll = FrameReader(self._socket), select.poll()
        poll.register(self._socket, select.POLLIN)
        ends_at = float("inf")
        while True:
            if not self._holds_rows():
                # servers that started together must not all write together for ever
                ends_at = float("inf")
                first_s = self._settings.segment_s * random.uniform(0.3, 1.0)
            wait_s = None if ends_at == float("inf") else max(0.0, ends_at - time.monotonic())
            if self._kafka is not None and self._kafka.is_busy:
                wait_s = _KAFKA_POLL_S if wait_s is None else min(wait_s, _KAFKA_POLL_S)
            if poll.poll(None if wait_s is None else wait_s * 1e3):
                size, frames = reader.read()
                if not size:
                    break
                for one in frames:
                    self._take(one)
                self._prepare()
                if ends_at == float("inf") and self._holds_rows():
                    ends_at = time.monotonic() + first_s
            if sum(map(len, self._waiting.values())) >= _ROWS_AT_ONCE:
                self._make_columns()
                self._write()
            if time.monotonic() >= ends_at:
                self._end_segments()
                ends_at = time.monotonic() + self._settings.segment_s
            if self._kafka is not None:
                self._kafka.advance()
            self._tell()
        self._end_segments()
        if self._writer is not None:
            self._counts.dropped += self._writer.drop()
        self._tell()
        if self._kafka is not None:
            self._kafka.close()
            self._tell()

    def _holds_rows(self) -> bool:
        return any(self._waiting.values()) or (self._writer is not None and self._writer.rows > 0)

    def _take(self, data: bytes) -> None:
        match decode_command(data):
            case Rows(publications, notifications):
                self._to_kafka(publications, notifications)
                if self._settings.files:
                    self._waiting["publications"] += publications
                    self._waiting["notifications"] += notifications
                else:
                    self._counts.written += len(publications) + len(notifications)
            case Flush():
                self._end_segments()
                self._counts.flushes += 1

    def _to_kafka(
        self, publications: Sequence[tuple[Any, ...]], notifications: Sequence[tuple[Any, ...]]
    ) -> None:
        settings, sink = self._settings.kafka, self._kafka
        if settings is not None and sink is not None:
            records = [publication_record(row, settings) for row in publications]
            records += [notification_record(row, settings) for row in notifications]
            sink.take(records)

    def _prepare(self) -> None:
        """Load Arrow with the first rows: it takes a while and tens of MB, so not before."""
        if self._writer is None and any(self._waiting.values()):
            from nearcast.runtime.event_log_segments import SegmentWriter

            self._writer = SegmentWriter(
                self._files, self._retention(), self._settings.segment_rows, self._clock
            )

    def _retention(self) -> Retention:
        keep_mb, keep_days = self._settings.keep_mb, self._settings.keep_days
        return Retention(
            (segment for files in self._files.values() for segment in files.segments()),
            inf if keep_mb is None else keep_mb * (1 << 20),
            inf if keep_days is None else keep_days * 86_400.0,
        )

    def _make_columns(self) -> None:
        self._prepare()
        for table, rows in self._waiting.items():
            if rows and self._writer is not None:
                self._counts.dropped += self._writer.take(table, rows)
                rows.clear()
                give_way()

    def _end_segments(self) -> None:
        if self._holds_rows():
            self._make_columns()
        if self._writer is not None:
            self._writer.end()
            self._counts.last_error = None  # time for another try
            self._write()

    def _write(self) -> None:
        """Write what has ended, unless the disk refused a moment ago."""
        if self._writer is None or self._counts.last_error is not None:
            return
        done = self._writer.write()
        self._counts.written += done.rows
        self._counts.segments += done.segments
        self._counts.removed += done.removed
        if done.error is not None:
            self._counts.errors += 1
            self._counts.last_error = str(done.error)

    def _tell(self) -> None:
        if self._kafka is not None:
            self._counts.kafka = msgspec.structs.replace(self._kafka.counts)
        if self._counts != self._told:
            self._told = msgspec.structs.replace(self._counts)
            with contextlib.suppress(OSError):  # the server is gone
                self._socket.sendall(frame(self._counts))


def serve(
    sock: socket.socket,
    settings: EventLogSettings,
    open_files: Callable[..., SegmentFiles] = SegmentFiles,
    clock: Callable[[], float] | None = None,
) -> None:
    """Write what comes until the stream ends."""
    with contextlib.suppress(ConnectionError):  # the server was killed
        _EventLogProcess(sock, settings, open_files, clock or SteadyClock()).run()


class _WithoutPandas(MetaPathFinder):
    """Arrow loads pandas with the first list, if it can: 40 MB that nobody uses here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Find everything but pandas elsewhere."""
        if fullname == "pandas":
            raise ImportError("the event log does without pandas")


def main(descriptor: int, settings_json: str) -> None:
    """Write the event log of the server at the other end of a socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when all ends
        signal.signal(number, signal.SIG_IGN)
    yield_to_server()
    os.nice(_NICENESS)
    sys.meta_path.insert(0, _WithoutPandas())
    with socket.socket(fileno=descriptor) as sock:
        serve(sock, msgspec.json.decode(settings_json, type=EventLogSettings))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

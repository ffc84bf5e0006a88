from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from nearcast.errors import ConfigError, OutputError, ScenarioError
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_files import Retention, Segment, SegmentFiles
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.runtime.event_log_process import serve
from nearcast.runtime.event_log_tables import read_notifications, read_publications
from nearcast.server.log_rows import NotificationRow, PublicationRow
from runtime.thread_helper import ThreadHelper


def publication(number: int, topic: str | None = "t", server: str = "e1") -> PublicationRow:
    return PublicationRow(
        topic,
        client=f"c{number}",
        time_us=1_700_000_000_000_000 + number * 1_000_000,
        x_km=number / 7,
        y_km=-number / 7,
        size=80,
        action="report" if topic is None else "publish",
        sequence=number,
        epoch=3,
        durable=True,
        server=server,
        payload=bytes([number % 256, 0, 255]),
    )


def notification(number: int, sequence: int = 5) -> NotificationRow:
    published_us = 1_700_000_000_000_000 + number * 10
    return NotificationRow(
        "t",
        publisher="p",
        epoch=3,
        sequence=sequence,
        part=0,
        clients=(f"c{number}", f"d{number}"),
        server="e1",
        published_us=published_us,
        received_us=published_us + 1,
        processing_us=70,
        processed_us=published_us + 72,
        notified_us=published_us + 73,
        size=80,
        durable=number % 2 == 0,
    )


def renamed(row: PublicationRow) -> dict[str, object]:
    cells = row._asdict()
    return {
        "size_bytes" if name == "size" else "time" if name == "time_us" else name: (
            value / 1e6 if name == "time_us" else value
        )
        for name, value in cells.items()
    }


def exploded(row: NotificationRow) -> list[dict[str, object]]:
    cells = row._asdict()
    return [
        {
            {"size": "size_bytes", "clients": "client"}.get(name, name): (
                client if name == "clients" else value
            )
            for name, value in cells.items()
        }
        for client in row.clients
    ]


@asynccontextmanager
async def opened(
    folder: Path,
    server: str = "e1",
    *,
    open_files: Callable[..., SegmentFiles] = SegmentFiles,
    clock: Callable[[], float] | None = None,
    most_rows: int = 1_000_000,
    **settings: Any,
) -> AsyncIterator[EventLog]:
    how = EventLogSettings(str(folder), server, **settings)
    log = EventLog(
        how,
        most_rows=most_rows,
        launch=lambda on_frames, on_lost: ThreadHelper(
            lambda sock: serve(sock, how, open_files, clock), on_frames, on_lost
        ),
    )
    log.start()
    try:
        yield log
    finally:
        await log.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


class FailingFiles(SegmentFiles):
    """A disk that is full until it is told otherwise."""

    is_full = True

    def write(self, table: pa.Table, started_s: float, number: int) -> Segment:
        if self.is_full:
            raise OSError(ENOSPC, "No space left on device")
        return super().write(table, started_s, number)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[FailingFiles]:
    monkeypatch.setattr(FailingFiles, "is_full", True)
    return FailingFiles


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    publications = [publication(1), publication(2, topic=None), publication(3, "tæ\n")]
    notifications = [notification(1), notification(2)]
    folder = tmp_path / "deep" / "log"

    async def story() -> None:
        log = EventLog(EventLogSettings(str(folder), "e1"))  # as a server has it: a process
        log.start()
        log.add(publications[:1], notifications[:1])
        log.add(publications[1:], notifications[1:])
        await log.close()
        assert log.counters.rows_written == 5
        assert log.counters.segments_written == 2
        assert log.counters.rows_held == log.counters.rows_dropped == 0

    run(story)
    assert read_publications(folder).to_pylist() == [*map(renamed, publications)]
    expected = [cells for row in notifications for cells in exploded(row)]
    assert read_notifications(folder).to_pylist() == expected
    (file,) = (folder / "notifications").iterdir()
    stored = parquet.read_table(file, partitioning=None)
    assert stored["clients"].to_pylist() == [["c1", "d1"], ["c2", "d2"]]


def test_a_log_without_rows_is_an_empty_table_with_columns(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path):
            pass

    run(story)
    assert read_notifications(tmp_path).num_rows == 0
    assert read_notifications(tmp_path).column_names[:6][-1] == "client"
    assert not list(tmp_path.rglob("*.parquet"))
    with pytest.raises(ScenarioError, match="nowhere: no such folder"):
        read_notifications(tmp_path / "nowhere")


def test_a_segment_ends_after_so_many_rows(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_rows=100, clock=lambda: 0.25) as log:
            log.add([publication(number) for number in range(150)], [])
            log.add([], [notification(1)])
            log.add([publication(number) for number in range(150, 250)], [])
        assert log.counters.segments_written == 4

    run(story)
    files = sorted((tmp_path / "publications").iterdir())
    assert [parquet.read_metadata(file).num_rows for file in files] == [100, 100, 50]
    assert files[0].name == "e1-19700101T000000250000Z-000001.parquet"
    assert read_publications(tmp_path)["sequence"].to_pylist() == [*range(250)]


def test_a_segment_ends_after_so_long(tmp_path: Path) -> None:
    is_written = threading.Event()

    class SignallingFiles(SegmentFiles):
        def write(self, table: pa.Table, started_s: float, number: int) -> Segment:
            written = super().write(table, started_s, number)
            is_written.set()
            return written

    async def story() -> None:
        async with opened(tmp_path, segment_s=0.01, open_files=SignallingFiles) as log:
            log.add([publication(1)], [])
            assert await asyncio.to_thread(is_written.wait, 60)
            assert read_publications(tmp_path).num_rows == 1

    run(story)


def test_many_rows_are_all_written_once_and_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_rows=3_333) as log:
            for start in range(0, 20_000, 10):
                log.add([publication(start + step) for step in range(10)], [])
        assert log.counters.rows_held == 0

    run(story)
    assert read_publications(tmp_path)["sequence"].to_pylist() == [*range(20_000)]


def test_a_reader_sees_whole_files_only_while_the_log_is_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_rows=50) as log:
            for start in range(0, 1500, 30):
                log.add([publication(number) for number in range(start, start + 30)], [])
                if start % 300 == 0:
                    await log.flush()
                seen = read_publications(tmp_path)["sequence"].to_pylist()
                assert seen == [*range(len(seen))]

    run(story)
    assert read_publications(tmp_path).num_rows == 1500


def test_a_segment_has_a_hidden_name_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_before: list[list[str]] = []
    fsync = os.fsync

    def record_names(descriptor: int) -> None:
        names_before.append([file.name for file in (tmp_path / "publications").iterdir()])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_names)

    async def story() -> None:
        async with opened(tmp_path) as log:
            log.add([publication(1)], [])

    run(story)
    assert len(names_before) == 1
    assert [name[0] for name in names_before[0]] == ["."]
    assert [name[0] for name in os.listdir(tmp_path / "publications")] == ["e"]


_KILLED = """
import asyncio, os, signal, sys
sys.path[:0] = PATH
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_frames import EventLogSettings
from runtime.test_event_log import publication

async def main():
    log = EventLog(EventLogSettings(sys.argv[1], "e1"))
    log.start()
    log.add([publication(1), publication(2)], [])
    await log.flush()
    log.add([publication(3)], [])
    log._hand_over()
    log.add([publication(4)], [])
    print(log._helper.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_a_kill_of_the_server_loses_what_was_not_handed_over(tmp_path: Path) -> None:
    code = _KILLED.replace("PATH", repr(sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=False,
        timeout=120,
        capture_output=True,  # ends when the process of the log has
    )
    assert done.returncode == -signal.SIGKILL
    assert read_publications(tmp_path)["sequence"].to_pylist() == [1, 2, 3]


def test_a_process_that_is_killed_costs_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nearcast.runtime.event_log._RESTART_AFTER_S", 0.0)

    async def story() -> None:
        log = EventLog(EventLogSettings(str(tmp_path), "e1"))
        log.start()
        log.add([publication(1)], [])
        await log.flush()
        log.add([publication(2)], [])
        log._hand_over()
        os.kill(log._helper.pid, signal.SIGKILL)  # type: ignore[union-attr]
        await log._ended.wait()
        log.add([publication(3)], [])
        await log.close()
        counters = log.counters
        assert (counters.rows_written, counters.rows_dropped, counters.rows_held) == (2, 1, 0)

    run(story)
    assert "1 rows are lost" in caplog.text
    assert read_publications(tmp_path)["sequence"].to_pylist() == [1, 3]


def test_what_a_crash_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "publications"
    folder.mkdir()
    ours = folder / ".e1-20260102T030405000000Z-000007.parquet"
    others = [
        folder / ".e1-b-20260102T030405000000Z-000007.parquet",
        folder / "e1-20260102T030405000000Z-000006.parquet",
        folder / ".e1-notes.parquet",
    ]
    for file in (ours, *others):
        file.write_bytes(b"PAR1")
    EventLog(EventLogSettings(str(tmp_path), "e1"))
    assert set(folder.iterdir()) == set(others)


def test_rows_wait_for_a_full_disk_and_are_dropped_beyond_a_limit(
    tmp_path: Path, failing: type[FailingFiles], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with opened(tmp_path, most_rows=30, segment_rows=10, open_files=failing) as log:
            log.add([publication(number) for number in range(25)], [])
            await log.flush()
            log.add([publication(number) for number in range(25, 50)], [])
            await log.flush()
            assert log.counters.errors >= 2
            assert "No space left" in str(log.counters.last_error)
            assert (log.counters.rows_held, log.counters.rows_dropped) == (30, 20)
            assert os.listdir(tmp_path / "publications") == []
            failing.is_full = False
            await log.flush()
            assert log.counters.last_error is None
            log.add([publication(50)], [])
        assert log.counters.rows_written == 31

    run(story)
    assert read_publications(tmp_path)["sequence"].to_pylist() == [*range(30), 50]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_disk_that_is_full_to_the_end_does_not_stop_the_server(
    tmp_path: Path, failing: type[FailingFiles], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with opened(tmp_path, open_files=failing) as log:
            log.add([publication(1)], [notification(1)])
            await log.close()
            await log.close()
            log.add([publication(2)], [])
            await log.flush()
        assert (log.counters.rows_dropped, log.counters.rows_held) == (3, 0)

    run(story)
    assert "2 rows are lost" in caplog.text


def test_a_value_that_no_column_holds_costs_its_row_only(tmp_path: Path) -> None:
    rows = [notification(number) for number in range(1200)]
    rows[700] = notification(700, sequence=(1 << 64) - 1)
    rows[701] = notification(701, sequence=1 << 64)
    rows[702] = rows[702]._replace(topic="\ud800")

    async def story() -> None:
        async with opened(tmp_path) as log:
            log.add([], rows)
        assert (log.counters.rows_dropped, log.counters.rows_held) == (3, 0)

    run(story)
    clients = read_notifications(tmp_path)["client"].to_pylist()
    expected = [number for number in range(1200) if number not in (700, 701, 702)]
    assert clients[::2] == [f"c{number}" for number in expected]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"keep_mb": 1e-9}, [5]),
        ({"keep_days": 3 / 24}, [2, 3, 4, 5]),
        ({"keep_mb": 100.0, "keep_days": 1.5 / 24}, [4, 5]),
    ],
)
def test_old_segments_go(tmp_path: Path, limits: dict[str, Any], kept: list[int]) -> None:
    other = tmp_path / "publications" / "e1-b-19700101T000000000000Z-000001.parquet"
    other.parent.mkdir()
    other.write_bytes(b"")

    async def story() -> None:
        for number in range(6):  # a server that starts anew every hour
            now_s = 1.7e9 + 3600 * number
            async with opened(tmp_path, **limits, clock=lambda now_s=now_s: now_s) as log:  # type: ignore[misc]
                log.add([publication(number)], [])

    run(story)
    other.unlink()  # fails if it was taken for one of e1's
    assert read_publications(tmp_path)["sequence"].to_pylist() == kept


def test_the_oldest_segments_of_all_tables_go_first(tmp_path: Path) -> None:
    def segment(number: int) -> Segment:
        path = tmp_path / str(number)
        path.write_bytes(bytes(100))
        return Segment(float(number), number, path, 100)

    there = [segment(number) for number in (3, 1, 2)]
    retention = Retention(there, keep_bytes=250, keep_s=50.0)
    assert retention.remove_old(10.0) == 1
    retention.add(segment(4))
    (tmp_path / "2").unlink()  # by somebody else
    assert retention.remove_old(10.0) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]
    assert retention.size_bytes == 200
    assert retention.remove_old(1_000.0) == 1  # the newest one stays
    assert retention.remove_old(-1_000.0) == 0  # a clock that was set back


def test_removed_segments_are_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_rows=1, keep_mb=1e-9) as log:
            log.add([publication(number) for number in range(5)], [])
        assert log.counters.segments_written == 5
        assert log.counters.segments_removed == 4

    run(story)
    assert read_publications(tmp_path)["sequence"].to_pylist() == [4]


def test_servers_share_a_folder(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, "e1") as first, opened(tmp_path, "e2") as second:
            first.add([publication(1)], [])
            second.add([publication(2, server="e2")], [])

    run(story)
    assert read_publications(tmp_path)["server"].to_pylist() == ["e1", "e2"]


def test_a_server_does_without_arrow() -> None:
    code = "import sys, nearcast.runtime.event_log; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="segment_s of the event log must be positive, not 0"):
        EventLog(EventLogSettings(str(tmp_path), "e1", segment_s=0))
    with pytest.raises(ConfigError, match="server '_e1': with an event log, an id has letters"):
        EventLog(EventLogSettings(str(tmp_path), "_e1"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/log: cannot be written: Not a directory"):
        EventLog(EventLogSettings(str(tmp_path / "file" / "log"), "e1"))


@pytest.mark.parametrize(("kafka", "wait_s"), [(None, 0.1), (KafkaSettings("none:1"), 0.01)])
def test_rows_for_kafka_are_handed_over_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: KafkaSettings | None, wait_s: float
) -> None:
    async def act() -> list[float]:
        waits: list[float] = []
        settings = EventLogSettings(str(tmp_path), "e1", kafka=kafka)
        log = EventLog(settings, launch=lambda *_: pytest.fail("not started"))
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(log, "_loop", loop, raising=False)
        monkeypatch.setattr(loop, "call_later", lambda wait_s, _: waits.append(wait_s))
        log.add([publication(1)], [])
        return waits

    assert asyncio.run(act()) == [wait_s]

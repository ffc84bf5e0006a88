from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from errno import ENOSPC
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from nearcast.errors import ConfigError, OutputError, ScenarioError
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_files import SegmentFiles
from nearcast.runtime.event_log_tables import read_notifications, read_publications
from nearcast.server.log_rows import LogRow, NotificationRow, PublicationRow


def publication(number: int, topic: str | None = "t", server: str = "e1") -> PublicationRow:
    return PublicationRow(
        topic,
        client=f"c{number}",
        time_s=1.7e9 + number,
        x_km=number / 7,
        y_km=-number / 7,
        size=80,
        action="report" if topic is None else "publish",
        sequence=number,
        epoch=3,
        durable=True,
        server=server,
    )


def notification(number: int, sequence: int = 5) -> NotificationRow:
    published_us = 1_700_000_000_000_000 + number * 10
    return NotificationRow(
        "t",
        publisher="p",
        epoch=3,
        sequence=sequence,
        part=0,
        client=f"c{number}",
        server="e1",
        published_us=published_us,
        received_us=published_us + 1,
        processing_us=70,
        processed_us=published_us + 72,
        notified_us=published_us + 73,
        size=80,
        durable=number % 2 == 0,
    )


def renamed(row: LogRow) -> dict[str, object]:
    names = {"time_s": "time", "size": "size_bytes"}
    return {names.get(name, name): value for name, value in row._asdict().items()}


class FailingFiles(SegmentFiles):
    """A disk that is full until it is told otherwise."""

    is_full = True

    def write(self, table: pa.Table, started_s: float, number: int) -> None:
        if self.is_full:
            raise OSError(ENOSPC, "No space left on device")
        super().write(table, started_s, number)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[FailingFiles]:
    monkeypatch.setattr(FailingFiles, "is_full", True)
    return FailingFiles


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    publications = [publication(1), publication(2, topic=None), publication(3, "tæ\n")]
    notifications = [notification(1), notification(2)]
    with EventLog(tmp_path / "deep" / "log", "e1") as log:
        log.add([publications[0], notifications[0]])
        log.add([*publications[1:], notifications[1]])
    assert read_publications(tmp_path / "deep" / "log").to_pylist() == [*map(renamed, publications)]
    assert read_notifications(tmp_path / "deep" / "log").to_pylist() == [
        *map(renamed, notifications)
    ]
    assert log.counters.rows_written == 5
    assert log.counters.segments_written == 2
    assert log.counters.rows_held == log.counters.rows_dropped == 0


def test_a_log_without_rows_is_an_empty_table_with_columns(tmp_path: Path) -> None:
    EventLog(tmp_path, "e1").close()
    assert read_notifications(tmp_path).num_rows == 0
    assert read_notifications(tmp_path).column_names[0] == "topic"
    assert not list(tmp_path.rglob("*.parquet"))
    with pytest.raises(ScenarioError, match="nowhere: no such folder"):
        read_notifications(tmp_path / "nowhere")


def test_a_segment_ends_after_so_many_rows(tmp_path: Path) -> None:
    with EventLog(tmp_path, "e1", segment_rows=100, clock=lambda: 0.25) as log:
        log.add([publication(number) for number in range(150)])
        log.add([notification(1)])
        log.add([publication(number) for number in range(150, 250)])
    files = sorted((tmp_path / "publications").iterdir())
    assert [parquet.read_metadata(file).num_rows for file in files] == [100, 100, 50]
    assert files[0].name == "e1-19700101T000000250000Z-000001.parquet"
    assert read_publications(tmp_path)["sequence"].to_pylist() == [*range(250)]
    assert log.counters.segments_written == 4


def test_a_segment_ends_after_so_long(tmp_path: Path) -> None:
    is_written = threading.Event()

    class SignallingFiles(SegmentFiles):
        def write(self, table: pa.Table, started_s: float, number: int) -> None:
            super().write(table, started_s, number)
            is_written.set()

    with EventLog(tmp_path, "e1", segment_s=0.01, open_files=SignallingFiles) as log:
        log.add([publication(1)])
        assert is_written.wait(60)
        assert read_publications(tmp_path).num_rows == 1


def test_rows_of_many_threads_are_all_written_once(tmp_path: Path) -> None:
    with EventLog(tmp_path, "e1", segment_rows=333) as log:

        def add_some(thread: int) -> None:
            for start in range(0, 2000, 10):
                log.add([publication(thread * 2000 + start + step) for step in range(10)])

        threads = [threading.Thread(target=add_some, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sequences = read_publications(tmp_path)["sequence"].to_pylist()
    assert sorted(sequences) == [*range(8000)]
    for thread_number in range(4):
        own = [number for number in sequences if number // 2000 == thread_number]
        assert own == sorted(own)


def test_a_reader_sees_whole_files_only_while_the_log_is_written(tmp_path: Path) -> None:
    with EventLog(tmp_path, "e1", segment_rows=50) as log:
        for start in range(0, 1500, 30):
            log.add([publication(number) for number in range(start, start + 30)])
            seen = read_publications(tmp_path)["sequence"].to_pylist()
            assert seen == [*range(len(seen))]
            assert len(seen) % 50 == 0
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
    with EventLog(tmp_path, "e1") as log:
        log.add([publication(1)])
    assert len(names_before) == 1
    assert [name[0] for name in names_before[0]] == ["."]
    assert [name[0] for name in os.listdir(tmp_path / "publications")] == ["e"]


def test_a_kill_loses_the_open_segment_only(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from nearcast.runtime.event_log import EventLog
from runtime.test_event_log import publication
log = EventLog(Path({str(tmp_path)!r}), "e1")
log.add([publication(1), publication(2)])
log.flush()
log.add([publication(3)])
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with EventLog(tmp_path, "e1") as log:
        log.add([publication(4)])
    assert read_publications(tmp_path)["sequence"].to_pylist() == [1, 2, 4]


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
    EventLog(tmp_path, "e1").close()
    assert set(folder.iterdir()) == set(others)


def test_rows_wait_for_a_full_disk_and_are_dropped_beyond_a_limit(
    tmp_path: Path, failing: type[FailingFiles], caplog: pytest.LogCaptureFixture
) -> None:
    with EventLog(tmp_path, "e1", most_rows=30, segment_rows=10, open_files=failing) as log:
        log.add([publication(number) for number in range(25)])
        log.flush()
        log.add([publication(number) for number in range(25, 50)])
        log.flush()
        assert log.counters.errors >= 2
        assert "No space left" in str(log.counters.last_error)
        assert (log.counters.rows_held, log.counters.rows_dropped) == (30, 20)
        assert not list(tmp_path.rglob("*.parquet"))
        failing.is_full = False
        log.flush()
        assert log.counters.last_error is None
        log.add([publication(50)])
    assert read_publications(tmp_path)["sequence"].to_pylist() == [*range(30), 50]
    assert log.counters.rows_written == 31
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_disk_that_is_full_to_the_end_does_not_stop_the_server(
    tmp_path: Path, failing: type[FailingFiles], caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog(tmp_path, "e1", open_files=failing)
    log.add([publication(1), notification(1)])
    log.close()
    log.close()
    log.add([publication(2)])
    log.flush()
    assert (log.counters.rows_dropped, log.counters.rows_held) == (3, 0)
    assert "2 rows are lost" in caplog.text


def test_a_value_that_no_column_holds_costs_its_row_only(tmp_path: Path) -> None:
    rows = [notification(number) for number in range(1200)]
    rows[700] = notification(700, sequence=1 << 64)
    rows[701] = rows[701]._replace(topic="\ud800")
    with EventLog(tmp_path, "e1") as log:
        log.add(rows)
    clients = read_notifications(tmp_path)["client"].to_pylist()
    assert clients == [f"c{number}" for number in range(1200) if number not in (700, 701)]
    assert (log.counters.rows_dropped, log.counters.rows_held) == (2, 0)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"keep_segments": 2}, [4, 5]),
        ({"keep_hours": 3}, [2, 3, 4, 5]),
        ({"keep_segments": 3, "keep_hours": 1.5}, [4, 5]),
    ],
)
def test_old_segments_go(tmp_path: Path, limits: dict[str, Any], kept: list[int]) -> None:
    other = tmp_path / "publications" / "e1-b-19700101T000000000000Z-000001.parquet"
    other.parent.mkdir()
    other.write_bytes(b"")
    for number in range(6):  # a server that starts anew every hour
        now_s = 1.7e9 + 3600 * number
        with EventLog(tmp_path, "e1", **limits, clock=repeat(now_s).__next__) as log:
            log.add([publication(number)])
    other.unlink()  # fails if it was taken for one of e1's
    assert read_publications(tmp_path)["sequence"].to_pylist() == kept


def test_servers_share_a_folder(tmp_path: Path) -> None:
    with EventLog(tmp_path, "e1") as first, EventLog(tmp_path, "e2") as second:
        first.add([publication(1)])
        second.add([publication(2, server="e2")])
    assert read_publications(tmp_path)["server"].to_pylist() == ["e1", "e2"]


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="segment_s of the event log must be positive, not 0"):
        EventLog(tmp_path, "e1", segment_s=0)
    with pytest.raises(ConfigError, match="server '_e1': with an event log, an id has letters"):
        EventLog(tmp_path, "_e1")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/log: cannot be written: Not a directory"):
        EventLog(tmp_path / "file" / "log", "e1")

"""The folder of a stream: each batch once, one process, one query; disks that refuse."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from nearcast.errors import ConfigError, NearcastError, OutputError
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.spark_errors import reason_of
from nearcast.pipeline.stream.batch_files import BatchFiles, rows_after
from nearcast.pipeline.stream.progress_lines import progress_line
from nearcast.pipeline.stream.stream_folder import StreamFolder
from pipeline.event_records import FIELD, expected_alerts, random_events
from pipeline.test_site_log import write_site_log

SCHEMA = pa.schema([("batch", pa.int64()), ("row", pa.int64())])


def rows_of(batch: int) -> list[dict[str, object]]:
    return [{"batch": batch, "row": row} for row in range(batch % 3)]


def read(folder: Path) -> list[int]:
    return sorted(parquet.read_table(folder)["batch"].to_pylist())


def test_batches_that_are_repeated_and_merged_are_there_once(tmp_path: Path) -> None:
    expected = sorted(batch for batch in range(50) for _ in rows_of(batch))
    for batch in range(50):
        files = BatchFiles(tmp_path, SCHEMA, merge_after=7)  # as after a kill
        files.write(batch, rows_of(batch))
        files.write(batch, rows_of(batch))
        done = batch // 2
        later = [one["batch"] for one in rows_after(tmp_path, done)]
        assert later == [one for one in expected if done < one <= batch]
    assert read(tmp_path) == expected
    assert len(list(tmp_path.iterdir())) < 10


def test_a_kill_while_parts_are_removed_leaves_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        path.rename(path.with_suffix(".gone"))

    files = BatchFiles(tmp_path, SCHEMA, merge_after=4)
    for batch in (1, 2, 4, 5):
        files.write(batch, rows_of(batch))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            files.write(7, rows_of(7))
    # a reader meets what the kill has left
    assert [one["batch"] for one in rows_after(tmp_path, 0)] == [1, 2, 2, 4, 5, 5, 7]
    assert [one["batch"] for one in rows_after(tmp_path, 2)] == [4, 5, 5, 7]
    BatchFiles(tmp_path, SCHEMA)
    found = [parquet.read_table(one, partitioning=None) for one in tmp_path.glob("*.parquet")]
    assert sorted(pa.concat_tables(found)["batch"].to_pylist()) == [1, 2, 2, 4, 5, 5, 7]


def test_a_file_that_is_none_of_the_table_is_one_sentence(tmp_path: Path) -> None:
    BatchFiles(tmp_path, SCHEMA)
    (tmp_path / "0000000001-0000000001.parquet").write_bytes(b"nonsense")
    with pytest.raises(OutputError, match=r"0000000001\.parquet: is not a file of this table"):
        rows_after(tmp_path, 0)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    files = BatchFiles(tmp_path, SCHEMA)
    monkeypatch.setattr("nearcast.pipeline.stream.batch_files.os.fsync", refuse)
    with pytest.raises(OutputError, match=f"{tmp_path}: the disk is full"):
        files.write(1, rows_of(1))
    assert not list(tmp_path.glob("[!.]*"))
    said = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: No space left on "
        "device SQLSTATE: XXKST\n=== Streaming Query ===\nCaused by: java.io.IOException: "
        "No space left on device\n\tat java.base/x"
    )
    assert "No space left on device" in reason_of(said)


def test_the_folder_of_another_query_another_process_or_nobody_is_refused(tmp_path: Path) -> None:
    folder = StreamFolder(tmp_path / "out")
    first = {"form": 1, "source": "Kafka, topics a.*"}
    busy = pytest.raises(ConfigError, match="another process runs")
    with folder.opened(first), busy, folder.opened(first):
        pass
    with folder.opened({**first, "window_s": 60}):  # one more query: it goes on
        pass
    with folder.opened(first):
        pass
    other = {**first, "source": "Kafka, topics b.*"}
    said = r"another query: source was .* a\.\*', now it is .*b\."
    with pytest.raises(ConfigError, match=said), folder.opened(other):
        pass
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    for place in (tmp_path / "file" / "out", tmp_path / "full", Path("/proc/stream")):
        with pytest.raises(NearcastError, match=str(place)), StreamFolder(place).opened(first):
            pass
    (tmp_path / "out" / "stream.json").write_text("{nonsense")
    with pytest.raises(ConfigError, match="is not what a stream writes"), folder.opened(first):
        pass


def test_a_line_tells_of_rows_lag_and_state() -> None:
    progress = {
        "name": "nearcast-alerts", "batchId": 7, "numInputRows": 1200,
        "processedRowsPerSecond": 600.4, "durationMs": {"triggerExecution": 2000},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 2_000_000, "numRowsDroppedByWatermark": 4}
        ],
        "sources": [{"metrics": {"maxOffsetsBehindLatest": "55"}}],
    }  # fmt: skip
    assert progress_line(progress, {"alerts": 5, "refused": 0}) == (
        "nearcast-alerts, batch 7: 1,200 rows in 2,000 ms (600/s), lag 55 rows, "
        "state 3 rows 2.0 MB, 4 late, alerts 5"
    )


def test_what_was_half_written_when_a_stream_was_killed_is_removed(tmp_path: Path) -> None:
    offsets = tmp_path / "out" / "checkpoints" / "alerts" / "offsets"
    offsets.mkdir(parents=True)
    whole = [offsets / name for name in ("0", ".0.crc")]
    half = [offsets / name for name in (".1.5f7-c.tmp", "..1.5f7-c.tmp.crc")]
    for file in (*whole, *half):
        file.write_text("v1")
    with StreamFolder(tmp_path / "out").opened({}):
        assert sorted(offsets.iterdir()) == sorted(whole)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["20k", "40k"])
def test_a_checkpoint_whose_disk_is_full_is_one_sentence_and_goes_on_when_there_is_room(
    tmp_path: Path, size: str
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    events = random_events(300)
    later_us = events[-1].time_us + 1_000_000  # what came before is no longer held
    ends = [
        events[-1]._replace(topic=f"road/{one}", time_us=later_us, sequence=10_000)
        for one in range(3)
    ]
    write_site_log(log, [*events, *ends])
    script = Path(__file__).with_name("full_disk_driver.py")
    driver: list[str | Path] = [sys.executable, script, log, out, size]
    # a real file system of that size, which this user may mount in a namespace of its own
    ran = subprocess.run(
        ["unshare", "--map-root-user", "--mount", *driver, json.dumps(FIELD)],
        capture_output=True,
        text=True,
        check=True,
    )
    error, code, *_ = (line for line in ran.stderr.splitlines() if not line.startswith("Spark "))
    assert error.startswith("error: stream nearcast-alerts: the disk is full")
    assert code == "exit code 2"
    table = parquet.read_table(out / "alerts", partitioning=None)
    told = expected_alerts(events, KafkaSettings("none:1", events=("road/#",)))
    assert sorted(table["id"].to_pylist()) == sorted(told)

"""A processor over a log: in order, once, and whatever it does to single messages is counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cli.conftest import Run
from nearcast.pipeline.replay import ReplaySettings, replay_topic
from nearcast.runtime.event_log_tables import SCHEMAS
from pipeline.job_names import job_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOODY = "pipeline.bad_processors:Moody"


def row(topic: str, sequence: int, payload: bytes | None, **more: Any) -> dict[str, Any]:
    return {
        "topic": topic, "client": "car", "time": 1e9 + sequence, "x_km": 1.0, "y_km": 2.0,
        "size_bytes": 1, "action": "publish", "sequence": sequence, "epoch": 1, "durable": True,
        "server": "e1", "payload": payload, **more,
    }  # fmt: skip


ROWS = [
    row("a", 3, b"hang"),
    row("a", 1, b"x"),
    row("a", 2, b"raise"),
    row("a", 5, b"twice"),
    row("a", 4, b"y"),
    row("b", 1, b"z", client="bike"),
]


def write_log(folder: Path) -> Path:
    (folder / "publications").mkdir(parents=True)
    rows = [
        *ROWS,
        row("a", 4, b"y", server="e2", time=1e9 + 9),  # repeated at another home
        row("a", 6, None),
        row("a", 0, b"", action="subscribe"),
    ]
    for number in range(2):
        table = pa.Table.from_pylist(rows[number::2], SCHEMAS["publications"])
        parquet.write_table(table, folder / "publications" / f"e{number}.parquet")
    return folder


def made(table: pa.Table) -> list[tuple[int, int, bytes]]:
    found = [one for one in table.to_pylist() if one["topic"] == "a" and not one.get("error")]
    return sorted((one["sequence"], one["part"], one["payload"]) for one in found)


EXPECTED = [(1, 0, b"1 of 1"), (4, 0, b"2 of 4"), (5, 0, b"3 of 5"), (5, 1, b"again")]


def test_a_topic_is_replayed_in_order_and_bad_messages_have_no_effect() -> None:
    rows = pa.Table.from_pylist(ROWS[:5], SCHEMAS["publications"])
    found = replay_topic(rows, ReplaySettings(MOODY, timeout_s=0.2))
    assert made(found) == EXPECTED
    errors = {one["sequence"]: one["error"] for one in found.to_pylist() if one["error"]}
    assert errors.keys() == {2, 3}
    assert "as told" in errors[2]
    assert "took longer than 0.2 s" in errors[3]


def test_a_message_that_overtook_others_of_its_publisher_waits_for_them() -> None:
    rows = [
        row("a", 2, b"late", time=1e9 + 1),
        row("a", 1, b"early", client="bike", time=1e9 + 2),
        row("a", 1, b"first", time=1e9 + 3),  # lost, and sent again
        row("a", 9, b"once", durable=False, time=1e9 + 0.5),
    ]
    found = replay_topic(
        pa.Table.from_pylist(rows, SCHEMAS["publications"]), ReplaySettings("forward")
    )
    assert [one["payload"] for one in found.to_pylist()] == [b"once", b"early", b"first", b"late"]


def test_a_log_is_replayed_on_spark(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    log, out = write_log(tmp_path / "log"), tmp_path / "out"
    command = ["pipeline", "replay", "--processor", MOODY, "--log", log, "--out", out]
    answer = run(*command, "--timeout", "0.3", "--json")
    assert answer.code == 0, answer.err
    assert "nearcast replay" in job_names(spark)
    assert answer.json == {
        "path": str(out / "notifications"),
        "topics": 2,
        "publications": 6,
        "notifications": 5,
        "failed": 1,
        "hung": 1,
        "bad_rows": 2,
    }
    assert made(parquet.read_table(out / "notifications")) == EXPECTED
    failures = parquet.read_table(out / "failures").to_pylist()
    assert sorted(one["sequence"] for one in failures) == [2, 3]
    assert {one.name for one in out.iterdir()} == {"notifications", "failures"}
    again = run(*command)
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--processor", "nonsense"], "there is no processor 'nonsense'"),
        (["--processor", "speeding"], "limit_kmh"),
        (["--processor", "forward", "--processor-options", "["], "is not a JSON object"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_spark_starts(
    run: Run, tmp_path: Path, options: list[str], said: str
) -> None:
    place = ["--log", tmp_path, "--out", tmp_path / "out"]
    answer = run("pipeline", "replay", *options, *place)
    assert answer.code == 2
    assert said in answer.err
    assert not (tmp_path / "out").exists()

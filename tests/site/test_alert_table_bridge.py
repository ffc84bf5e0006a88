"""Alerts of a stream's table reach the site's subscribers without Kafka, later ones after a return."""

from __future__ import annotations

import fcntl
import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.conftest import Run, run  # noqa: F401
from cli.test_standalone import PORTS, enrol, serving
from nearcast.errors import NearcastError
from nearcast.pipeline.stream.batch_files import BatchFiles
from nearcast.sdk import SyncClient
from nearcast.site.alert_table_bridge import AlertTableBridge
from shown_commands import in_help, in_pages, with_verb

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "id", "cause", "area", "attributes")),
        *((name, pa.int64()) for name in ("time_us", "valid_until_us", "batch")),
        ("payload", pa.binary()),
    ]
)


def alert(number: int, batch: int, until_us: int | None = None) -> dict[str, Any]:
    return {
        "topic": "road/n",
        "id": f"0/c{number}",
        "cause": f"c{number}",
        "area": "",
        "attributes": json.dumps({"n": number}),
        "time_us": 1,
        "valid_until_us": until_us,
        "batch": batch,
        "payload": b"slow down",
    }


def shown_command() -> list[str]:
    shown = [*in_pages(), *(line for lines in in_help().values() for line in lines)]
    lines = with_verb(shown, "pipeline")
    (line,) = (one for one in lines if one.startswith("nearcast pipeline bridge "))
    return shlex.split(line)[1:]


def test_what_a_stream_alerts_is_told_once_and_what_was_missed_after_a_return(
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    data, table = tmp_path / "broker", BatchFiles(Path("alerted/alerts"), SCHEMA, merge_after=3)
    table.write(0, [alert(1, 0), alert(2, 0, until_us=5)])
    with serving(data, *PORTS):
        sign, own = enrol(run, data, "sign"), enrol(run, data, "service")
        Path("service.json").write_bytes(own.read_bytes())
        with SyncClient.connect(sign, timeout_s=30) as listener:
            listener.subscribe("alerts/road/#")
            first = run(*shown_command(), "--json")
            assert first.code == 0, first.err
            table.write(0, [alert(1, 0), alert(2, 0, until_us=5)])  # a batch again
            for batch in (2, 3, 4):  # the first ones are merged
                table.write(batch, [alert(batch + 1, batch)])
            second = run(*shown_command(), "--json")
            heard = [listener.next_notification(60) for _ in range(4)]
            again = run(*shown_command())
    nothing = {"told": 0, "expired": 0, "repeated": 0, "malformed": 0, "refused": 0}
    assert first.json == {**nothing, "told": 1, "expired": 1}
    assert second.json == {**nothing, "told": 3}
    assert again.out.startswith("told 0, ")
    assert [one.attributes["n"] for one in heard if one is not None] == [1, 3, 4, 5]
    assert {(one.topic, one.payload) for one in heard if one} == {("alerts/road/n", b"slow down")}


def test_what_it_cannot_follow_is_one_sentence(tmp_path: Path) -> None:
    def said(out: Path) -> str:
        with pytest.raises(NearcastError, match=str(out)) as raised:
            AlertTableBridge(out, tmp_path / "never-read").run(lambda: False)
        return str(raised.value)

    assert "there is no stream with alerts" in said(tmp_path / "nowhere")
    out = tmp_path / "out"
    (out / "alerts").mkdir(parents=True)
    with (out / "told.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process tells these alerts" in said(out)

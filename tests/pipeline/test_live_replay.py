"""What a processor makes of a server's own log is what the server made when it was live."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as parquet

from cli.conftest import Run
from cli.test_standalone import PORTS, enrol, serving
from nearcast.pipeline.replay import ReplaySettings, replay_log
from nearcast.runtime.event_log_tables import read_publications
from nearcast.sdk import SyncClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"deviations": 1.0, "recent": 20, "least": 3}
"""Each answer depends on the messages before, hence on their order."""


def test_a_replay_is_what_the_live_server_made_of_the_same_input(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    data, rng = tmp_path / "broker", Random(5)
    rule = ("--processor", "threshold", "--processor-options", json.dumps(OPTIONS))
    with serving(data, *PORTS, *rule) as server:
        car, bike, sign = (enrol(run, data, name) for name in ("car", "bike", "sign"))
        heard: list[tuple[str, str, int, bytes]] = []
        with (
            SyncClient.connect(sign, timeout_s=60) as listener,
            SyncClient.connect(car, timeout_s=60) as first,
            SyncClient.connect(bike, timeout_s=60) as second,
        ):
            for topic in ("road", "air"):
                listener.subscribe(topic)
            receipts = [
                rng.choice((first, second)).publish(
                    rng.choice(("road", "air")), {"value": rng.gauss(0, 1)}
                )
                for _ in range(80)
            ]
            for receipt in receipts:
                receipt.wait(60)
            for topic in ("road", "air"):  # unlike all before: alerted last
                first.publish(topic, {"value": 1e9}).wait(60)
            lasts = 0
            while lasts < 2:
                told = listener.next_notification(60)
                assert told is not None
                lasts += json.loads(told.payload)["value"] == 1e9
                heard.append((told.topic, told.publisher, told.sequence, told.payload))
        server.stop()
    settings = ReplaySettings("threshold", json.dumps(OPTIONS))
    result = replay_log(spark, data / "log", tmp_path / "replayed", settings)
    assert (result.publications, result.failed) == (82, 0)
    # what a client sends again, since its receipt took long, is in the log again, and nothing else
    logged = [row for row in read_publications(data / "log").to_pylist() if row["sequence"]]
    assert result.bad_rows == len(logged) - 82
    said: dict[tuple[object, ...], set[bytes]] = {}
    for row in logged:
        key = tuple(row[name] for name in ("topic", "client", "epoch", "durable", "sequence"))
        said.setdefault(key, set()).add(row["payload"])
    assert len(said) == 82
    assert {len(payloads) for payloads in said.values()} == {1}
    table = parquet.read_table(result.path).sort_by([("time", "ascending")]).to_pylist()
    again = [(row["topic"], row["publisher"], row["sequence"], row["payload"]) for row in table]
    assert len(again) > 10
    # what each says depends on the messages before; subscribers hear each publisher in order
    for stream in {one[:2] for one in again}:
        assert [one for one in again if one[:2] == stream] == [
            one for one in heard if one[:2] == stream
        ]

"""One log gives one result, whatever its format, the length of its ids and the number of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from nearcast.domain import tables, texts
from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import read_plan
from nearcast.domain.scenario_files import read_scenario
from nearcast.pipeline.run import RunSettings, run_pipeline
from nearcast.pipeline.stages import members
from nearcast.planning.request import PlanRequest
from pipeline.nasty_logs import write_nasty_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITTEN = ("clients", "topics", "members", "relations", "homes", "topic_delays", "server_use")
SETTINGS = PlanRequest(Model.RATIO, "reloc", regions=3)


def results_of(spark: SparkSession, log: Path, out: Path) -> dict[str, object]:
    """Return what a run leaves in its folder, row by row."""
    out.mkdir()
    found = run_pipeline(spark, RunSettings([log], request=SETTINGS), out)
    scenario = read_scenario(out / "scenario")
    plan, report = read_plan(out / "plan", scenario)
    assert plan.homes.tolist() == found.outcome.plan.homes.tolist()
    assert scenario_fingerprint(scenario) == scenario_fingerprint(found.scenario)
    rows = {name: pq.read_table(out / name).to_pylist() for name in WRITTEN}
    return {
        **rows,
        "scenario": scenario_fingerprint(scenario),
        "cost": report["cost"],
        "publish": plan.publish.tolist(),
        "percentiles": found.evaluation.percentiles_ms,
    }


def test_a_log_gives_the_same_plan_in_every_format_and_with_long_ids(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for name in ("log.jsonl", "log.csv", "log.parquet"):
        write_nasty_log(tmp_path / name, good=400, seed=6)
        found[name] = results_of(spark, tmp_path / name, tmp_path / f"{name}-run")
    wanted = found.pop("log.csv")
    for name, results in found.items():
        assert results == wanted, name
    # As with more than 2 GB of ids: 64 bits for their offsets, tables written piece by piece.
    monkeypatch.setattr(texts, "MOST_SHORT_BYTES", 3)
    monkeypatch.setattr(tables, "_ROWS_OF_A_PIECE", 7)
    monkeypatch.setattr(members, "ROWS_OF_ONE_TASK", 0)
    assert results_of(spark, tmp_path / "log.csv", tmp_path / "long") == wanted
    kept = pq.read_schema(tmp_path / "long" / "scenario" / "clients.parquet")
    assert str(kept.field("client_id").type) == "large_string"

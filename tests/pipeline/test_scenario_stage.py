from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.imports.publications import PublicationsParams, import_publications
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import PipelineError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.stages.scenario import build_scenario, save_scenario
from nearcast.pipeline.workspace import Workspace
from pipeline.log_rows import random_rows, write_rows


def run_stages(workspace: Workspace, log: Path, settings: MembersSettings) -> Scenario:
    ingest_publications(workspace, [log], StageRecord("ingest"))
    find_members(workspace, settings, StageRecord("members"))
    scenario = build_scenario(workspace, settings, log.name.split(".")[0], 5)
    save_scenario(workspace, scenario, StageRecord("scenario"))
    return scenario


def assert_same(found: Scenario, wanted: Scenario) -> None:
    assert found.settings.name == wanted.settings.name
    assert found.settings.extra["import"] == wanted.settings.extra["import"]
    for table, numbers in (
        ("clients", ("x_km", "y_km")),
        ("topics", ("spool", "permissible_ms", "process_ms")),
        ("servers", ("x_km", "y_km", "storage", "compute", "client_limit")),
    ):
        ours, theirs = getattr(found, table), getattr(wanted, table)
        assert ours.ids.equals(theirs.ids)
        for column in numbers:
            np.testing.assert_allclose(
                getattr(ours, column), getattr(theirs, column), rtol=1e-12, atol=1e-9
            )
    for column in ("topic", "client", "publishes", "subscribes"):
        np.testing.assert_array_equal(
            getattr(found.members, column), getattr(wanted.members, column)
        )
    np.testing.assert_allclose(found.members.rate_hz, wanted.members.rate_hz, rtol=1e-12)
    assert found.settings.width_km == pytest.approx(wanted.settings.width_km, abs=1e-9)
    assert found.settings.height_km == pytest.approx(wanted.settings.height_km, abs=1e-9)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl.gz", "log.parquet"])
@pytest.mark.parametrize("in_degrees", [False, True], ids=["km", "degrees"])
def test_the_scenario_of_a_clean_log_is_that_of_the_import(
    workspace: Workspace, tmp_path: Path, name: str, in_degrees: bool
) -> None:
    log = write_rows(tmp_path / name, random_rows(401, in_degrees))
    found = run_stages(workspace, log, MembersSettings())
    wanted = import_publications(log, None, PublicationsParams(), 5)
    assert_same(found, wanted)
    assert_same(read_scenario(workspace.folder / "scenario"), wanted)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("in_degrees", [False, True], ids=["km", "degrees"])
def test_sites_lie_on_the_plane_of_the_log(
    workspace: Workspace, tmp_path: Path, in_degrees: bool
) -> None:
    log = write_rows(tmp_path / "log.parquet", random_rows(200, in_degrees))
    sites = tmp_path / "sites.csv"
    text = "site_id,latitude,longitude\nA,48.1,179.95\nB,48.2,-179.9\n"
    sites.write_text(text if in_degrees else "site_id,x_km,y_km\nA,-3,1\nB,0.5,2\n")
    parameters = PublicationsParams(subscribe=False, storage=50.0)
    found = run_stages(workspace, log, MembersSettings(sites=sites, parameters=parameters))
    assert_same(found, import_publications(log, sites, parameters, 5))


@pytest.mark.usefixtures("either_way")
def test_a_drawn_log_of_several_tasks_keeps_the_order_of_its_rows(
    workspace: Workspace, tmp_path: Path
) -> None:
    shape = LogShape(clients=300, topics=200, members=2000, messages_per_member=3)
    assert write_publication_log(tmp_path / "log.csv", shape, 4) == 0
    spark = workspace.spark
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        found = run_stages(workspace, tmp_path / "log.csv", MembersSettings())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    wanted = import_publications(tmp_path / "log.csv", None, PublicationsParams(), 5)
    assert len(wanted.members) == 2000
    assert_same(found, wanted)


def test_a_missing_stage_is_named(workspace: Workspace) -> None:
    with pytest.raises(PipelineError, match="the stage members writes it"):
        build_scenario(workspace, MembersSettings(), "x", 1)

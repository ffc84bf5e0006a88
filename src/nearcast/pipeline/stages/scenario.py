"""From the tables of the pipeline to a scenario: in memory, and as the folder that all verbs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.columns import Place
from nearcast.domain.imports.positions import Plane
from nearcast.domain.imports.publications import LogMembers, log_scenario
from nearcast.domain.imports.sources import read_source
from nearcast.domain.json_files import read_json_object
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.domain.texts import shortened
from nearcast.errors import PipelineError
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.driver_tables import long_texts
from nearcast.pipeline.stages.members import PLANE_FILE, MembersSettings
from nearcast.pipeline.stages.members_table import map_members

if TYPE_CHECKING:
    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["SCENARIO_FOLDER", "build_scenario", "save_scenario"]

SCENARIO_FOLDER = "scenario"


def build_scenario(
    workspace: Workspace, settings: MembersSettings, name: str, seed: int
) -> Scenario:
    """Return the scenario of the tables that `find_members` wrote.

    The settings are those of `find_members`. Nothing is drawn; `seed` is only noted.
    """
    plane_path = workspace.folder / PLANE_FILE
    if not plane_path.exists():
        raise PipelineError(f"{plane_path}: missing; the stage members writes it")
    noted = read_json_object(plane_path, Place(str(plane_path)))
    with clear_errors("collecting the scenario"):
        clients = long_texts(workspace.read("clients")).combine_chunks()
        topics = long_texts(workspace.read("topics")).combine_chunks()
        members = map_members(workspace)
    places_km = [np.column_stack([clients.column(axis).to_numpy() for axis in ("x_km", "y_km")])]
    sites = None if settings.sites is None else read_source(settings.sites)
    if sites is not None:
        places_km.append(np.array(noted["sites_km"]))
    projection = noted["projection"]
    plane = Plane(None if projection is None else LocalProjection(**projection), places_km)
    return log_scenario(
        plane.settings(name, seed, "publications", {"rows": noted["rows"]}),
        plane,
        LogMembers(
            shortened(clients.column("client_id").chunk(0)),
            shortened(topics.column("topic_id").chunk(0)),
            topics.column("mean_size").to_numpy(),
            members,
        ),
        sites,
        settings.parameters,
    )


def save_scenario(workspace: Workspace, scenario: Scenario, record: StageRecord) -> None:
    """Write a scenario's folder into the run folder and note what it holds."""
    folder = workspace.folder / SCENARIO_FOLDER
    write_scenario(scenario, folder, table_format="parquet", overwrite=True)
    record.rows_out = len(scenario.members)
    for table in ("servers", "clients", "topics", "members"):
        record.tables[f"{SCENARIO_FOLDER}/{table}"] = len(getattr(scenario, table))

"""From the tables of the pipeline to a scenario: in memory, and as the folder that all verbs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.columns import Place
from nearcast.domain.imports.positions import Plane
from nearcast.domain.imports.publications import LogMembers, log_scenario
from nearcast.domain.imports.sources import read_source
from nearcast.domain.json_files import read_json_object
from nearcast.domain.scenario import Members, Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.errors import PipelineError
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.members import PLANE_FILE, MembersSettings

if TYPE_CHECKING:
    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["SCENARIO_FOLDER", "build_scenario", "save_scenario"]

SCENARIO_FOLDER = "scenario"


def build_scenario(
    workspace: Workspace, settings: MembersSettings, name: str, seed: int, record: StageRecord
) -> Scenario:
    """Return the scenario of the tables that `find_members` wrote, and write its folder.

    The settings are those of `find_members`. Nothing is drawn; `seed` is only noted.
    """
    plane_path = workspace.folder / PLANE_FILE
    if not plane_path.exists():
        raise PipelineError(f"{plane_path}: missing; the stage members writes it")
    noted = read_json_object(plane_path, Place(str(plane_path)))
    with clear_errors("collecting the scenario"):
        clients = workspace.read("clients").sort_by("client_index").combine_chunks()
        topics = workspace.read("topics").sort_by("topic_index").combine_chunks()
        members = _members(workspace, len(clients))
    places_km = [np.column_stack([clients.column(axis).to_numpy() for axis in ("x_km", "y_km")])]
    sites = None if settings.sites is None else read_source(settings.sites)
    if sites is not None:
        places_km.append(np.array(noted["sites_km"]))
    projection = noted["projection"]
    plane = Plane(None if projection is None else LocalProjection(**projection), places_km)
    scenario = log_scenario(
        plane.settings(name, seed, "publications", {"rows": noted["rows"]}),
        plane,
        LogMembers(
            clients.column("client_id").chunk(0),
            topics.column("topic_id").chunk(0),
            topics.column("mean_size").to_numpy(),
            members,
        ),
        sites,
        settings.parameters,
    )
    save_scenario(workspace, scenario, record)
    return scenario


def save_scenario(workspace: Workspace, scenario: Scenario, record: StageRecord) -> None:
    """Write a scenario's folder into the run folder and note what it holds."""
    folder = workspace.folder / SCENARIO_FOLDER
    write_scenario(scenario, folder, table_format="parquet", overwrite=True)
    record.rows_out = len(scenario.members)
    for table in ("servers", "clients", "topics", "members"):
        record.tables[f"{SCENARIO_FOLDER}/{table}"] = len(getattr(scenario, table))


def _members(workspace: Workspace, clients: int) -> Members:
    columns = ("topic_index", "client_index", "publishes", "subscribes", "rate_hz")
    found = workspace.read("members", columns)
    topic, client, publishes, subscribes, rate_hz = (
        found.column(column).to_numpy() for column in columns
    )
    order = np.argsort(topic.astype(np.int64) * clients + client)
    return Members(topic[order], client[order], publishes[order], subscribes[order], rate_hz[order])

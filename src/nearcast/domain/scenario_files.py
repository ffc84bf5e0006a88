"""Scenarios as folders: ``scenario.json`` and one table each of servers, clients, topics, members.

What the columns are and which defaults they have is in `nearcast.domain.columns`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.domain.cells import LoadedTable, load_table
from nearcast.domain.columns import SCENARIO_TABLES, Kind, Place
from nearcast.domain.delay_tables import (
    delay_columns,
    read_client_server_ms,
    read_server_server_ms,
)
from nearcast.domain.json_files import write_json
from nearcast.domain.output_folder import SCENARIO_FILE, new_folder
from nearcast.domain.scenario import Clients, FloatArray, Members, Scenario, Servers, Topics
from nearcast.domain.settings_file import read_settings, settings_to_json
from nearcast.domain.tables import (
    Chosen,
    TableFormat,
    check_folder,
    choose_format,
    file_label,
    write_table,
)
from nearcast.domain.validation import check_rules, validate_scenario
from nearcast.errors import ScenarioError

__all__ = ["read_scenario", "write_scenario"]


def read_scenario(folder: Path) -> Scenario:
    """Read and check a scenario.

    Members come back sorted by topic, within a topic in the order of the file; all else is
    in the order of the file. Unknown columns and files are ignored.

    Raises
    ------
    ScenarioError
        For the first thing that is wrong, naming file, row and column.
    """
    folder = Path(folder)
    check_folder(folder, "scenario folder", ScenarioError)
    settings_place = Place(file_label(folder, SCENARIO_FILE))
    if not (folder / SCENARIO_FILE).exists():
        settings_place.fail("missing; every scenario has one")
    tables = {
        name: load_table(folder, name, SCENARIO_TABLES[name], ScenarioError)
        for name in ("servers", "clients", "topics", "members")
    }
    servers, clients, topics = _entities(tables)
    extent_km = (
        _extent(servers.x_km, clients.x_km),
        _extent(servers.y_km, clients.y_km),
    )
    settings = read_settings(folder / SCENARIO_FILE, settings_place, extent_km)
    members = _members(tables["members"], topics.ids, clients.ids)
    places = {name: table.place for name, table in tables.items()}
    check_rules(Scenario(settings, servers, clients, topics, members), places)
    return Scenario(
        settings=settings,
        servers=servers,
        clients=clients,
        topics=topics,
        members=_sorted_by_topic(members),
        client_server_ms=read_client_server_ms(folder, clients, servers, settings.ms_per_km),
        server_server_ms=read_server_server_ms(folder, servers, settings.ms_per_km),
    )


def write_scenario(
    scenario: Scenario,
    folder: Path,
    *,
    table_format: TableFormat = "auto",
    overwrite: bool = False,
) -> None:
    """Check a scenario and write it, the whole folder or nothing.

    Parameters
    ----------
    scenario
        What to write; the same scenario gives the same bytes.
    folder
        A new path or an empty folder.
    table_format
        ``csv``, ``parquet`` or ``auto``: Parquet when a table has more than 200,000 rows.
    overwrite
        Whether to replace a scenario that is there.

    Raises
    ------
    ScenarioError
        When the scenario contradicts itself.
    OutputError
        When the folder cannot be written.
    """
    validate_scenario(scenario)
    tables = {name: _columns(scenario, name) for name in ("servers", "clients", "topics")}
    members = scenario.members
    tables["members"] = {
        "topic_id": Chosen(scenario.topics.ids, members.topic),
        "client_id": Chosen(scenario.clients.ids, members.client),
        "publishes": members.publishes.view(np.int8),
        "subscribes": members.subscribes.view(np.int8),
        "rate_hz": members.rate_hz,
    }
    servers = scenario.servers.ids
    for name, ids in (("client_server_ms", scenario.clients.ids), ("server_server_ms", servers)):
        delay_ms = getattr(scenario, name)
        if delay_ms is not None:
            tables[name] = delay_columns(name, delay_ms, ids, servers)
    form = choose_format(table_format, max(len(next(iter(t.values()))) for t in tables.values()))
    with new_folder(folder, overwrite=overwrite, kind=SCENARIO_FILE) as partial:
        write_json(partial / SCENARIO_FILE, settings_to_json(scenario.settings))
        for name, columns in tables.items():
            write_table(partial / f"{name}.{form}", columns)


def _entities(tables: dict[str, LoadedTable]) -> tuple[Servers, Clients, Topics]:
    servers, clients, topics = (
        dict(tables[name].values) for name in ("servers", "clients", "topics")
    )
    return (
        Servers(ids=servers.pop("server_id"), **servers),
        Clients(ids=clients.pop("client_id"), **clients),
        Topics(ids=topics.pop("topic_id"), **topics),
    )


def _extent(*positions_km: FloatArray) -> float:
    every = np.concatenate(positions_km)
    return float(every.max()) - float(every.min()) if len(every) else 0.0


def _members(table: LoadedTable, topic_ids: pa.Array, client_ids: pa.Array) -> Members:
    return Members(
        topic=table.indices("topic_id", topic_ids, "topic"),
        client=table.indices("client_id", client_ids, "client"),
        publishes=table["publishes"],
        subscribes=table["subscribes"],
        rate_hz=table["rate_hz"],
    )


def _sorted_by_topic(members: Members) -> Members:
    if (np.diff(members.topic) >= 0).all():
        return members
    order = np.argsort(members.topic, kind="stable")
    return Members(
        topic=members.topic[order],
        client=members.client[order],
        publishes=members.publishes[order],
        subscribes=members.subscribes[order],
        rate_hz=members.rate_hz[order],
    )


def _columns(scenario: Scenario, name: str) -> dict[str, Any]:
    """Return the columns of servers, clients or topics; an infinite limit is an empty cell."""
    table = getattr(scenario, name)
    columns: dict[str, Any] = {}
    for column in SCENARIO_TABLES[name]:
        if column.kind is Kind.NUMBER:
            values = getattr(table, column.name)
            columns[column.name] = pa.array(values, mask=np.isinf(values))
        else:
            columns[column.name] = table.net_id if column.name == "net_id" else table.ids
    return columns

"""Plans as folders: ``plan.json`` and the tables homes, publish and brokers.

A plan written by hand or by another program needs ``homes`` only. Without ``publish`` everybody
publishes to its home; without ``brokers`` a topic is managed, with share 1 and on the edge,
wherever somebody publishes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.cells import load_optional_table, load_table
from nearcast.domain.columns import PLAN_TABLES, Place
from nearcast.domain.json_files import plain_json, read_json_object, write_json
from nearcast.domain.output_folder import PLAN_FILE, new_folder
from nearcast.domain.plan import Brokers, Model, Objective, Plan, PlanReport, PlanStatus
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.domain.tables import (
    Chosen,
    TableFormat,
    check_folder,
    choose_format,
    file_label,
    write_table,
)
from nearcast.domain.validation import first_repeated
from nearcast.errors import PlanError

__all__ = ["read_plan", "report_from_json", "report_to_json", "write_plan"]


def read_plan(folder: Path, scenario: Scenario) -> tuple[Plan, dict[str, Any]]:
    """Read a plan and check that it fits its scenario.

    Returns
    -------
    tuple
        The plan, and the content of ``plan.json``, empty where there is no such file.

    Raises
    ------
    PlanError
        For the first thing that is wrong, naming file, row and column.
    """
    folder = Path(folder)
    check_folder(folder, "plan folder", PlanError)
    report: dict[str, Any] = {}
    if (folder / PLAN_FILE).exists():
        place = Place(file_label(folder, PLAN_FILE), PlanError)
        report = read_json_object(folder / PLAN_FILE, place)
    homes = _read_homes(folder, scenario)
    publish = _read_publish(folder, scenario, homes)
    return Plan(homes, publish, _read_brokers(folder, scenario, publish)), report


def write_plan(
    plan: Plan,
    report: PlanReport,
    scenario: Scenario,
    folder: Path,
    *,
    table_format: TableFormat = "auto",
    overwrite: bool = False,
) -> None:
    """Write a plan of a scenario, the whole folder or nothing.

    Parameters
    ----------
    plan, report
        What to write; the same plan gives the same tables.
    scenario
        Whose ids the tables shall have.
    folder
        A new path or an empty folder.
    table_format
        ``csv``, ``parquet`` or ``auto``: Parquet when a table has more than 200,000 rows.
    overwrite
        Whether to replace a plan that is there.

    Raises
    ------
    OutputError
        When the folder cannot be written.
    """
    servers, topics, clients = scenario.servers.ids, scenario.topics.ids, scenario.clients.ids
    members, brokers = scenario.members, plan.brokers
    publishers = None if members.publishes.all() else np.flatnonzero(members.publishes)
    hosted = pa.array(["cloud", "edge"]).take(pa.array(brokers.on_edge.astype(np.int8)))
    tables = {
        "homes": {"client_id": clients, "server_id": Chosen(servers, plan.homes)},
        "publish": {
            "topic_id": Chosen(topics, members.topic, publishers),
            "client_id": Chosen(clients, members.client, publishers),
            "server_id": Chosen(servers, plan.publish, publishers),
        },
        "brokers": {
            "topic_id": Chosen(topics, brokers.topic),
            "server_id": Chosen(servers, brokers.server),
            "hosted": hosted,
            "share": brokers.share,
        },
    }
    form = choose_format(table_format, max(len(clients), len(members), len(brokers.topic)))
    with new_folder(folder, overwrite=overwrite, kind=PLAN_FILE) as partial:
        write_json(partial / PLAN_FILE, report_to_json(report))
        for name, columns in tables.items():
            write_table(partial / f"{name}.{form}", columns)


def report_to_json(report: PlanReport) -> dict[str, Any]:
    """Return the content of ``plan.json``: plain values, null for infinite ones and NaN."""
    content: dict[str, Any] = plain_json(report)
    return content


def report_from_json(content: dict[str, Any]) -> PlanReport:
    """Return the report that ``plan.json`` holds."""
    objective = content["objective"]
    enums = {
        "model": Model(content["model"]),
        "objective": None if objective is None else Objective(objective),
        "status": PlanStatus(content["status"]),
    }
    return PlanReport(**{**content, **enums})


def _read_homes(folder: Path, scenario: Scenario) -> IndexArray:
    table = load_table(folder, "homes", PLAN_TABLES["homes"], PlanError)
    client = table.indices("client_id", scenario.clients.ids, "client")
    server = table.indices("server_id", scenario.servers.ids, "server")
    row = first_repeated(client)
    if row is not None:
        who = scenario.clients.ids[int(client[row])].as_py()
        table.place.fail(f"client {who!r} has two homes", row, "client_id")
    homes = np.full(len(scenario.clients), -1, dtype=np.int32)
    homes[client] = server
    homeless = np.flatnonzero(homes < 0)
    if len(homeless):
        who = scenario.clients.ids[int(homeless[0])].as_py()
        table.place.fail(f"client {who!r} has no home", column="client_id")
    return homes


def _read_publish(folder: Path, scenario: Scenario, homes: IndexArray) -> IndexArray:
    members = scenario.members
    table = load_optional_table(folder, "publish", PLAN_TABLES["publish"], PlanError)
    if table is None:
        return np.where(members.publishes, homes[members.client], -1).astype(np.int32)
    topic = table.indices("topic_id", scenario.topics.ids, "topic")
    client = table.indices("client_id", scenario.clients.ids, "client")
    server = table.indices("server_id", scenario.servers.ids, "server")
    clients = len(scenario.clients)
    key = topic.astype(np.int64) * clients + client
    row = first_repeated(key)
    if row is not None:
        table.place.fail("the publisher is there twice in this topic", row, "client_id")
    publishers = np.flatnonzero(members.publishes)
    known = members.topic[publishers].astype(np.int64) * clients + members.client[publishers]
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known, key, sorter=order), len(known) - 1)
    found = known[order[place]] == key
    if not found.all():
        table.place.fail("this client does not publish this topic", np.argmin(found), "client_id")
    publish = np.full(len(members), -1, dtype=np.int32)
    publish[publishers[order[place]]] = server
    missing = publishers[publish[publishers] < 0]
    if len(missing):
        what = scenario.topics.ids[int(members.topic[missing[0]])].as_py()
        who = scenario.clients.ids[int(members.client[missing[0]])].as_py()
        table.place.fail(f"there is no row for client {who!r}, who publishes topic {what!r}")
    return publish


def _read_brokers(folder: Path, scenario: Scenario, publish: IndexArray) -> Brokers:
    servers = len(scenario.servers)
    table = load_optional_table(folder, "brokers", PLAN_TABLES["brokers"], PlanError)
    if table is None:
        rows = publish >= 0
        used = np.unique(scenario.members.topic[rows].astype(np.int64) * servers + publish[rows])
        return Brokers(
            topic=(used // servers).astype(np.int32),
            server=(used % servers).astype(np.int32),
            on_edge=np.ones(len(used), dtype=np.bool_),
            share=np.ones(len(used)),
        )
    topic = table.indices("topic_id", scenario.topics.ids, "topic")
    server = table.indices("server_id", scenario.servers.ids, "server")
    hosted = pc.index_in(table["hosted"].cast(pa.string()), value_set=pa.array(["cloud", "edge"]))
    if hosted.null_count:
        row = int(pc.index(hosted.is_null(), True).as_py())
        value = table["hosted"][row].as_py()
        table.place.fail(f"{value!r} is neither edge nor cloud", row, "hosted")
    on_edge = hosted.to_numpy() == 1
    again = first_repeated((topic.astype(np.int64) * servers + server) * 2 + on_edge)
    if again is not None:
        table.place.fail("the same broker is there twice", again, "server_id")
    return Brokers(topic, server, on_edge, table["share"])

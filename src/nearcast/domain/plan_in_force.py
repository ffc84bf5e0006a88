"""Reads a plan made for yesterday's scenario: clients may have joined, left or moved since."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.cells import LoadedTable, find_ids, load_optional_table, load_table
from nearcast.domain.columns import PLAN_TABLES
from nearcast.domain.plan import Plan
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.errors import PlanError

__all__ = ["PlanInForce", "in_force", "read_plan_in_force"]


@dataclass(frozen=True, slots=True, eq=False)
class PlanInForce:
    """What of an earlier plan still means something in today's scenario."""

    homes: IndexArray
    """Home server [client]; -1 where the client is new or its server is gone."""
    spool_topic: IndexArray
    spool_server: IndexArray
    """Rows (topic, server) of the spools that edge servers hold now."""
    joined: int
    """Clients without a home in the plan."""
    left: int
    """Clients of the plan that are gone."""


def in_force(plan: Plan) -> PlanInForce:
    """Return a plan that was made for just this scenario as the one in force."""
    rows = plan.brokers.on_edge
    return PlanInForce(plan.homes, plan.brokers.topic[rows], plan.brokers.server[rows], 0, 0)


def read_plan_in_force(folder: Path, scenario: Scenario) -> PlanInForce:
    """Read a plan for re-planning; rows about clients, topics or servers that are gone are dropped.

    Raises
    ------
    PlanError
        When the plan is missing or unreadable, or nothing in it is known to the scenario.
    """
    if not folder.is_dir():
        raise PlanError("there is no such plan folder", file=str(folder))
    table = load_table(folder, "homes", PLAN_TABLES["homes"], PlanError)
    client = _known(table, "client_id", scenario.clients.ids)
    server = _known(table, "server_id", scenario.servers.ids)
    homes = np.full(len(scenario.clients), -1, dtype=np.int32)
    rows = (client >= 0) & (server >= 0)
    homes[client[rows]] = server[rows]
    if not rows.any():
        table.place.fail("no client and server of this plan is in the scenario")
    topics, servers = _spools(folder, scenario, homes)
    return PlanInForce(
        homes=homes,
        spool_topic=topics,
        spool_server=servers,
        joined=int(np.sum(homes < 0)),
        left=int(np.sum(client < 0)),
    )


def _spools(folder: Path, scenario: Scenario, homes: IndexArray) -> tuple[IndexArray, IndexArray]:
    table = load_optional_table(folder, "brokers", PLAN_TABLES["brokers"], PlanError)
    if table is None:
        rows = scenario.members.publishes & (homes[scenario.members.client] >= 0)
        return scenario.members.topic[rows], homes[scenario.members.client[rows]]
    topic = _known(table, "topic_id", scenario.topics.ids)
    server = _known(table, "server_id", scenario.servers.ids)
    on_edge = pc.equal(table["hosted"].cast(pa.string()), "edge").to_numpy(zero_copy_only=False)
    rows = (topic >= 0) & (server >= 0) & on_edge
    return topic[rows], server[rows]


def _known(table: LoadedTable, column: str, ids: pa.Array) -> IndexArray:
    """Return the index of each cell, -1 where the scenario does not know it."""
    index: IndexArray = find_ids(table[column], ids).fill_null(-1).to_numpy().astype(np.int32)
    return index

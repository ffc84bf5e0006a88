"""RELOC on executors: regions do not know each other, so groups of them are assigned at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nearcast.domain.grouping import Room, group_pieces
from nearcast.domain.part import take_part
from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, OffsetArray, Scenario
from nearcast.pipeline.blocks import BLOCKS_PER_CORE
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.shared_scenario import SharedScenario
from nearcast.planning.methods.assignment import Cooperation, assign_members, settle_the_rest
from nearcast.planning.methods.reloc import Assign
from nearcast.planning.regions import Regions
from nearcast.planning.relations import RelationKind, Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["distributed_assign"]

_FEWEST_ROWS = 5_000
"""Member rows that are worth a task."""


def distributed_assign(
    spark: SparkSession, shared: SharedScenario, room: Room = np.empty
) -> Assign:
    """Return RELOC's assignment in tasks of whole regions; the homes are those of one process.

    `room` gives an array that is as long as the members.
    """

    def assign(
        scenario: Scenario,
        model: Model,
        regions: Regions,
        relations: Relations,
        *,
        cooperate: Cooperation,
    ) -> IndexArray:
        members, client_region = scenario.members, regions.client_region
        region_rows = np.zeros(regions.count, dtype=np.int64)
        for rows in members.pieces():
            here = client_region[members.client[rows]]
            region_rows += np.bincount(here, minlength=regions.count)
        group = _group_regions(spark, region_rows)
        groups = int(group.max()) + 1
        client_group = group[client_region]
        rows_by_group = room(len(members), np.int64)
        row_cuts = group_pieces(
            lambda: (
                (client_group[members.client[rows]], np.arange(rows.start, rows.stop))
                for rows in members.pieces()
            ),
            groups,
            rows_by_group,
        )
        arrays: dict[str, npt.NDArray[Any]] = {
            # Sorted once here, so that each task finds its rows and clients without a search.
            "rows": rows_by_group,
            "clients": np.argsort(client_group, kind="stable").astype(np.int32),
            "client_region": client_region,
            "related_start": relations.start,
            "related": relations.others,
        }
        client_cuts = _cuts(np.bincount(client_group, minlength=groups))
        server_region = regions.server_region

        with share_arrays(spark, arrays) as files:

            def homes_of(number: int) -> tuple[IndexArray, IndexArray]:
                known = {name: np.asarray(array) for name, array in files.load().items()}
                part = take_part(
                    shared.load(),
                    known["rows"][row_cuts[number] : row_cuts[number + 1]],
                    clients=known["clients"][client_cuts[number] : client_cuts[number + 1]],
                    servers=np.flatnonzero(group[server_region] == number).astype(np.int32),
                )
                homes = assign_members(
                    part.scenario,
                    model,
                    _regions_of(server_region[part.servers], known["client_region"][part.clients]),
                    _relations_of(known["related_start"], known["related"], part.clients),
                    cooperate=cooperate,
                )
                idle = homes < 0
                return part.clients, np.where(idle, -1, part.servers[homes]).astype(np.int32)

            found = collect_blocks(spark, groups, homes_of)
        homes = np.full(len(scenario.clients), -1, dtype=np.int32)
        for clients, servers in found:
            homes[clients] = servers
        return settle_the_rest(scenario, homes)

    return assign


def _group_regions(spark: SparkSession, rows: OffsetArray) -> IndexArray:
    """Return the task of each region: neighbours by number, with about equal work."""
    wanted = BLOCKS_PER_CORE * spark.sparkContext.defaultParallelism
    count = max(min(wanted, len(rows), int(rows.sum()) // _FEWEST_ROWS), 1)
    middle = np.cumsum(rows) - rows / 2
    wished = (middle * count / max(int(rows.sum()), 1)).astype(np.int64)
    return np.unique(wished, return_inverse=True)[1].astype(np.int32)


def _cuts(sizes: OffsetArray) -> OffsetArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _regions_of(server_region: IndexArray, client_region: IndexArray) -> Regions:
    """Return the regions of a task, numbered from 0."""
    chosen, number = np.unique(server_region, return_inverse=True)
    size = np.bincount(number, minlength=len(chosen))
    return Regions(
        server_region=number.astype(np.int32),
        client_region=np.searchsorted(chosen, client_region).astype(np.int32),
        start=_cuts(size),
        servers=np.argsort(number, kind="stable").astype(np.int32),
    )


def _relations_of(start: OffsetArray, others: IndexArray, clients: IndexArray) -> Relations:
    """Return the relations among some clients: RELOC does not look at those of other regions."""
    size = start[clients + 1] - start[clients]
    owner = np.repeat(np.arange(len(clients)), size)
    entry = np.arange(len(owner)) + np.repeat(start[clients] - (np.cumsum(size) - size), size)
    number = np.full(len(start) - 1, -1, dtype=np.int32)
    number[clients] = np.arange(len(clients), dtype=np.int32)
    inside = number[others[entry]]
    kept = inside >= 0
    return Relations(
        kind=RelationKind.COUNTS,
        start=_cuts(np.bincount(owner[kept], minlength=len(clients))),
        others=inside[kept],
        score=np.zeros(int(kept.sum()), dtype=np.float32),
        partners_per_topic=0,
    )

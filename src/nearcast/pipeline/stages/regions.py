"""Stage 4, regions: groups of servers by K-means, and the region of each client."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import Scenario
from nearcast.pipeline.blocks import block_count
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_tables import read_columns, save_blocks
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.regions import Regions, find_centres

__all__ = [
    "CLIENT_REGIONS_SCHEMA",
    "CLIENT_REGIONS_TABLE",
    "SERVER_REGIONS_SCHEMA",
    "SERVER_REGIONS_TABLE",
    "divide",
]

SERVER_REGIONS_TABLE = "server_regions"
SERVER_REGIONS_SCHEMA = pa.schema([("server_index", pa.int32()), ("region", pa.int32())])
CLIENT_REGIONS_TABLE = "client_regions"
CLIENT_REGIONS_SCHEMA = pa.schema([("client_index", pa.int32()), ("region", pa.int32())])
"""One row a server or client; regions are numbered from 0 by their lowest server."""
_FEWEST_CLIENTS = 50_000
"""Clients that are worth a task."""


def divide(
    workspace: Workspace, scenario: Scenario, count: int, seed: int, record: StageRecord
) -> Regions:
    """Write the regions of servers and clients and return them, as `divide_into_regions` does.

    There are few servers: their K-means runs on the driver, with restarts.
    """
    spark, clients = workspace.spark, scenario.clients
    centres = find_centres(scenario.servers, count, seed)
    blocks = block_count(spark, len(clients), _FEWEST_CLIENTS)
    with share_arrays(spark, {"x_km": clients.x_km, "y_km": clients.y_km}) as shared:

        def rows_of(block: int) -> Iterator[pa.RecordBatch]:
            places = shared.load()
            total = len(places["x_km"])
            begin, end = block * total // blocks, (block + 1) * total // blocks
            region = centres.nearest(places["x_km"][begin:end], places["y_km"][begin:end])
            index = np.arange(begin, end, dtype=np.int32)
            yield pa.RecordBatch.from_arrays(
                [pa.array(index), pa.array(region)], schema=CLIENT_REGIONS_SCHEMA
            )

        record.tables[CLIENT_REGIONS_TABLE] = save_blocks(
            workspace, CLIENT_REGIONS_TABLE, CLIENT_REGIONS_SCHEMA, blocks, rows_of
        )
    index = np.arange(len(scenario.servers), dtype=np.int32)
    servers = pa.table([index, centres.server_region], schema=SERVER_REGIONS_SCHEMA)
    record.tables[SERVER_REGIONS_TABLE] = workspace.save_rows(SERVER_REGIONS_TABLE, servers)
    (client_region,) = read_columns(workspace, CLIENT_REGIONS_TABLE, ["region"])
    regions = centres.regions(client_region)
    record.rows_in = len(clients) + len(scenario.servers)
    record.rows_out = sum(record.tables.values())
    record.notes |= {"regions": regions.count, "asked_for": count}
    return regions

"""The optional tables of measured delays: rows (from, to, ms) in files, matrices in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.domain.cells import LoadedTable, load_optional_table
from nearcast.domain.columns import SCENARIO_TABLES
from nearcast.domain.scenario import Clients, FloatArray, IndexArray, Servers
from nearcast.domain.validation import first_repeated
from nearcast.errors import ScenarioError
from nearcast.geo.distance import distance_km

__all__ = ["delay_columns", "read_client_server_ms", "read_server_server_ms"]

_MOST_PAIRS = 200_000_000


def read_client_server_ms(
    folder: Path, clients: Clients, servers: Servers, ms_per_km: float
) -> FloatArray | None:
    """Return the delays [client, server], by distance where the table has no row; None: no table."""
    table = _load(folder, "client_server_ms", len(clients) * len(servers))
    if table is None:
        return None
    client = table.indices("client_id", clients.ids, "client")
    server = table.indices("server_id", servers.ids, "server")
    return _matrix(table, "server_id", client, server, clients, servers, ms_per_km)


def read_server_server_ms(folder: Path, servers: Servers, ms_per_km: float) -> FloatArray | None:
    """Return the delays [from, to], by distance where the table has no row; None: no table."""
    table = _load(folder, "server_server_ms", len(servers) ** 2)
    if table is None:
        return None
    start = table.indices("from_id", servers.ids, "server")
    end = table.indices("to_id", servers.ids, "server")
    loop = np.flatnonzero((start == end) & (table["ms"] != 0))
    if len(loop):
        table.place.fail("a server's delay to itself must be 0", loop[0], "ms")
    return _matrix(table, "to_id", start, end, servers, servers, ms_per_km)


def delay_columns(
    name: str, delay_ms: FloatArray, rows: pa.Array, columns: pa.Array
) -> dict[str, Any]:
    """Return the table of a matrix: one row for every pair."""
    first, second, value = (column.name for column in SCENARIO_TABLES[name])
    row = np.repeat(np.arange(len(rows)), len(columns))
    column = np.tile(np.arange(len(columns)), len(rows))
    return {first: rows.take(row), second: columns.take(column), value: delay_ms.ravel()}


def _load(folder: Path, name: str, pairs: int) -> LoadedTable | None:
    """Return the table, or None where it is missing or says nothing."""
    table = load_optional_table(folder, name, SCENARIO_TABLES[name], ScenarioError)
    if table is None or not table.rows:
        return None
    if pairs > _MOST_PAIRS:
        table.place.fail(
            f"{pairs:,} pairs are too many for measured delays (at most {_MOST_PAIRS:,}); "
            "remove the table to use distances"
        )
    return table


def _matrix(
    table: LoadedTable,
    second_column: str,
    row: IndexArray,
    column: IndexArray,
    starts: Clients | Servers,
    ends: Servers,
    ms_per_km: float,
) -> FloatArray:
    delay_ms = np.full((len(starts), len(ends)), np.nan)
    delay_ms[row, column] = table["ms"]
    if np.count_nonzero(~np.isnan(delay_ms)) < table.rows:
        again = first_repeated(row.astype(np.int64) * len(ends) + column)
        table.place.fail("the pair is there twice", again, second_column)
    # By column: a matrix of distances beside this one could be too large.
    for end in range(len(ends)):
        gap = np.isnan(delay_ms[:, end])
        if gap.any():
            km = distance_km(
                starts.x_km[gap],
                starts.y_km[gap],
                ends.x_km[end : end + 1],
                ends.y_km[end : end + 1],
            )
            delay_ms[gap, end] = ms_per_km * km
    return delay_ms

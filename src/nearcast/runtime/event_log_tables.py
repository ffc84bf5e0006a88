"""The two tables of a site's event log: their columns, rows into Arrow, and reading them back.

`publications` is what `nearcast pipeline run` reads as it is. Its sizes are called `size_bytes`,
which the pipeline passes over: a site's limits count messages, not bytes.

A row of `notifications` on the disk is a notification with all its receivers at one home, in the
column `clients`; `read_notifications` returns a row for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from nearcast.errors import ScenarioError
from nearcast.runtime.helper_scheduling import give_way

__all__ = ["SCHEMAS", "read_notifications", "read_publications", "to_batches"]

_PUBLICATIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("client", pa.string()),
        ("time", pa.float64()),
        ("x_km", pa.float64()),
        ("y_km", pa.float64()),
        ("size_bytes", pa.int64()),
        ("action", pa.string()),
        ("sequence", pa.int64()),
        ("epoch", pa.int64()),
        ("durable", pa.bool_()),
        ("server", pa.string()),
        ("payload", pa.binary()),
    ]
)
_NOTIFICATIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("publisher", pa.string()),
        ("epoch", pa.int64()),
        ("sequence", pa.int64()),
        ("part", pa.int64()),
        ("clients", pa.list_(pa.string())),
        ("server", pa.string()),
        ("published_us", pa.int64()),
        ("received_us", pa.int64()),
        ("processing_us", pa.int64()),
        ("processed_us", pa.int64()),
        ("notified_us", pa.int64()),
        ("size_bytes", pa.int64()),
        ("durable", pa.bool_()),
    ]
)
SCHEMAS = {"publications": _PUBLICATIONS, "notifications": _NOTIFICATIONS}
"""Columns by folder, in the order of the fields of `PublicationRow` and `NotificationRow`."""

_ROWS_AT_ONCE = 250
"""Half a millisecond of work, after which others may have the core."""


def to_batches(rows: Sequence[tuple[Any, ...]], table: str) -> list[pa.RecordBatch]:
    """Return rows of a table as Arrow; a row that does not fit the columns is left out.

    A number beyond 64 bits, say: a client chose it, and the rows of others should not suffer.
    """
    batches: list[pa.RecordBatch] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        if start:
            give_way()
        try:
            batches.append(_to_batch(some, SCHEMAS[table]))
        except Exception:  # which one depends on the value, and none may end the log
            middle = len(some) // 2
            if middle:
                batches += to_batches(some[:middle], table) + to_batches(some[middle:], table)
    return batches


def read_publications(folder: Path) -> pa.Table:
    """Return what clients told their homes, of all servers that write to this folder.

    Raises
    ------
    ScenarioError
        When there is no such folder.
    """
    return _read(folder, "publications")


def read_notifications(folder: Path) -> pa.Table:
    """Return the notifications sent to clients, of all servers that write to this folder.

    A row is a notification to one client.

    Raises
    ------
    ScenarioError
        When there is no such folder.
    """
    import pyarrow.compute as pc  # which a server's process, that only writes, does without

    table = _read(folder, "notifications").combine_chunks()
    place = table.schema.get_field_index("clients")
    clients = table["clients"]
    rows = table.drop_columns("clients").take(pc.list_parent_indices(clients))
    return rows.add_column(place, "client", pc.list_flatten(clients))


def _to_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    cells = [_to_array(cells, field) for cells, field in zip(columns, schema, strict=True)]
    return pa.record_batch(cells, schema=schema)


def _to_array(cells: tuple[Any, ...], field: pa.Field) -> pa.Array:
    if field.name == "time":  # which the server counts in microseconds
        return pa.array([time_us / 1e6 for time_us in cells], field.type)
    return pa.array(cells, field.type)


def _read(folder: Path, kind: str) -> pa.Table:
    if not Path(folder).is_dir():
        raise ScenarioError("no such folder", file=str(folder))
    tables = [SCHEMAS[kind].empty_table()]
    for file in sorted((Path(folder) / kind).glob("[!._]*.parquet")):
        try:
            tables.append(parquet.read_table(file, partitioning=None))
        except FileNotFoundError:
            continue  # too old by now: the server removed it
    # segments that an older nearcast wrote have fewer columns
    return pa.concat_tables(tables, promote_options="default")

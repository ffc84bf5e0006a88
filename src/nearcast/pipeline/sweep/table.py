"""The tidy table of a sweep: one row a cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from nearcast.domain.plan import Model
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["CELL_SCHEMA", "FAILURE_SCHEMA", "METRICS", "RESULT_SCHEMA", "failure_row", "result_row"]

METRICS = ("Y", "Y1", "Y2", "Y3", "Y_drawn", "D1", "D2", "D3", "mean_ms", "pairs")
"""As the models name them (docs/glossary.md); null where a model does not have one."""
_LIMITS = ("speed_ms", "one_server_ms", "nearest_legs_ms")
_COUNTS = ("clients", "topics", "members")
_PER_SERVER = ("storage_used", "compute_used", "local_share", "clients_at_home")

CELL_SCHEMA = pa.schema(
    [
        pa.field("cell_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        # The scenario's parameters as one JSON object, and each by name: a string as it is, any
        # other value as JSON writes it.
        pa.field("parameters", pa.string(), nullable=False),
        pa.field("parameter", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        # Of the placement model only.
        pa.field("objective", pa.string()),
        # Null: chosen from the data.
        pa.field("regions", pa.int64()),
        # Null: by the size of the scenario.
        pa.field("relation_kind", pa.string()),
        pa.field("iterations", pa.int64()),
        pa.field("time_limit_s", pa.float64()),
        pa.field("bound_limit_s", pa.float64()),
        # The nearcast that ran the cell.
        pa.field("version", pa.string(), nullable=False),
    ]
)
"""What was asked."""

RESULT_SCHEMA = pa.schema(
    [
        *CELL_SCHEMA,
        # Y in ms, or the chosen D in ms; a proven lower bound of it; (cost - bound) / bound.
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("bound", pa.float64()),
        pa.field("gap", pa.float64()),
        pa.field("plan_status", pa.string()),
        # Wall-clock seconds of planning alone.
        pa.field("plan_seconds", pa.float64(), nullable=False),
        *(pa.field(name, pa.float64()) for name in METRICS),
        *(pa.field(name, pa.float64()) for name in _LIMITS),
        *(pa.field(name, pa.int64(), nullable=False) for name in _COUNTS),
        # From each client to its home.
        pa.field("home_km_mean", pa.float64(), nullable=False),
        pa.field("home_km_sd", pa.float64(), nullable=False),
        # One number a server, in the scenario's order.
        *(pa.field(name, pa.list_(pa.float64()), nullable=False) for name in _PER_SERVER),
        # Placement only: the delay of every publisher/subscriber pair, as `choose_pairs` lists them;
        # null where they are too many to keep.
        pa.field("pair_ms", pa.list_(pa.float64())),
        # Placement only: the brokers on edge servers of each topic, in the scenario's order.
        pa.field("topic_brokers", pa.list_(pa.int64())),
    ]
)
"""What came out."""

FAILURE_SCHEMA = pa.schema(
    [
        *CELL_SCHEMA,
        pa.field("error", pa.string(), nullable=False),
        # Where it happened, unless the error explains itself.
        pa.field("trace", pa.string()),
    ]
)
"""What went wrong."""


def result_row(cell: SweepCell, result: Mapping[str, Any]) -> pa.Table:
    """Return the row of a finished cell from what `run_cell` tells."""
    rest = dict(result)
    metrics, limits = rest.pop("metrics"), rest.pop("limits")
    return _table({**_cell_columns(cell), **metrics, **limits, **rest}, RESULT_SCHEMA)


def failure_row(cell: SweepCell, error: str, trace: str | None) -> pa.Table:
    """Return the row of a failed cell."""
    return _table({**_cell_columns(cell), "error": error, "trace": trace}, FAILURE_SCHEMA)


def _table(row: dict[str, Any], schema: pa.Schema) -> pa.Table:
    # Arrow would drop what the schema does not know.
    if unknown := sorted(set(row) - set(schema.names)):
        raise ValueError(f"no column for {', '.join(unknown)}")
    return pa.Table.from_pylist([row], schema)


def _cell_columns(cell: SweepCell) -> dict[str, Any]:
    given = json.loads(cell.parameters)
    return {
        "cell_id": cell.cell_id,
        "source": cell.source,
        "parameters": cell.parameters,
        "parameter": [
            (name, value if isinstance(value, str) else json.dumps(value))
            for name, value in given.items()
        ],
        "seed": cell.seed,
        "model": cell.model.value,
        "method": cell.method,
        "objective": cell.objective.value if cell.model is Model.PLACEMENT else None,
        "regions": cell.regions,
        "relation_kind": cell.relation_kind,
        "iterations": cell.iterations,
        "time_limit_s": cell.time_limit_s,
        "bound_limit_s": cell.bound_limit_s,
        "version": version("nearcast"),
    }

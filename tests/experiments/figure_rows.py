"""Rows of a sweep made by hand: what `run_cell` would tell, without planning anything."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from nearcast.delay.pair_delays import choose_pairs
from nearcast.domain.plan import Model
from nearcast.experiments.figures.summary import Curves, Interval
from nearcast.pipeline.sweep.cell import SweepCell, make_scenario


def curves_of(table: dict[str, dict[float, dict[str, float]]]) -> Curves:
    """Return curves of exact values: line, x, metric."""
    return Curves(
        {
            (line, x): {metric: Interval(value, value, value) for metric, value in metrics.items()}
            for line, points in table.items()
            for x, metrics in points.items()
        }
    )


def made_up_row(cell: SweepCell) -> dict[str, Any]:
    """Return a row of random numbers that depend on the cell alone."""
    rng = np.random.default_rng(zlib.crc32(cell.cell_id.encode()))
    servers = 100 if cell.model is Model.CONNECTIONS else 16
    row: dict[str, Any] = {
        "cell_id": cell.cell_id,
        "bound": 0.5,
        "gap": 0.0,
        "clients": 900,
        "members": 915,
        "storage_used": rng.uniform(100, 900, servers).tolist(),
        "compute_used": rng.uniform(1000, 4000, servers).tolist(),
        "home_km_mean": float(rng.uniform(2, 12)),
        "home_km_sd": 1.0,
        "pair_ms": None,
        "topic_brokers": None,
    }
    metrics = {
        name: float(value)
        for name, value in zip(("Y", "Y1", "Y2"), rng.uniform(1, 5, 3), strict=True)
    }
    if cell.model is Model.PLACEMENT:
        scenario = make_scenario(cell.source, cell.parameters, cell.seed)
        pairs = choose_pairs(scenario, cell.model, rng)
        brokers = rng.integers(0, 4, len(scenario.topics)).tolist()
        pair_ms = rng.uniform(0.2, 2, len(pairs)).tolist()
        return row | {"pair_ms": pair_ms, "topic_brokers": brokers}
    if cell.model is Model.CONNECTIONS:
        return row | metrics | {"Y3": 3.0, "nearest_legs_ms": 0.1, "speed_ms": None}
    return row | metrics | {"speed_ms": 0.2, "one_server_ms": 0.4}

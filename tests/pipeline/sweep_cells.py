"""Cells of a sweep that take no time, and a cell function that counts its calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.pipeline.sweep.cell import SweepCell

RESULT: dict[str, Any] = {
    "cost": 1.0,
    "bound": None,
    "gap": None,
    "plan_status": "heuristic",
    "plan_seconds": 0.0,
    "metrics": {"Y": 1.0},
    "limits": {"speed_ms": None},
    "clients": 1,
    "topics": 1,
    "members": 1,
    "home_km_mean": 0.0,
    "home_km_sd": 0.0,
    "storage_used": [1.0],
    "compute_used": [1.0],
    "local_share": [1.0],
    "clients_at_home": [1.0],
}


def cells_of_seeds(count: int) -> list[SweepCell]:
    return [SweepCell("reloc2021", seed=seed, method="nearest") for seed in range(count)]


def counting(log: Path, then: Callable[[SweepCell], None]) -> Callable[[SweepCell], dict[str, Any]]:
    """Return a cell function that notes each call as a line of a file."""
    result = dict(RESULT)

    def compute(cell: SweepCell) -> dict[str, Any]:
        with log.open("a") as file:
            file.write(f"{cell.seed}\n")
        then(cell)
        return {**result, "cost": float(cell.seed)}

    return compute


def calls(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().split())

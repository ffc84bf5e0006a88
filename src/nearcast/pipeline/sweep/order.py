"""Which cells make a task, and which task comes first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["expected_seconds", "tasks_of"]

_SECONDS = {"exact": 60.0, "optimised": 10.0, "reloc": 1.0, "relation": 1.0}
"""Rough, for the order only."""
_QUICK_S = 0.5
_CELLS_PER_TASK = 8


def expected_seconds(cell: SweepCell) -> float:
    """Return about how long a cell takes on a scenario of the papers' size."""
    usual_s = _SECONDS.get(cell.method, 0.1)
    if usual_s <= _QUICK_S:
        return usual_s
    limits_s = [limit for limit in (cell.time_limit_s, cell.bound_limit_s) if limit is not None]
    return sum(limits_s) or usual_s


def tasks_of(cells: Sequence[SweepCell]) -> list[list[SweepCell]]:
    """Return the cells cut into tasks, the longest first: a long one at the end would run alone.

    Quick cells of the same scenario share a task, since a task costs more than they do; any other
    has its own. Cells of one scenario stay neighbours: a worker keeps the last few scenarios.
    """
    scenarios = {_scenario(cell): rank for rank, cell in reversed(list(enumerate(cells)))}
    ordered = sorted(cells, key=lambda cell: (-expected_seconds(cell), scenarios[_scenario(cell)]))
    tasks = []
    for (seconds, _), group in groupby(
        ordered, key=lambda cell: (expected_seconds(cell), _scenario(cell))
    ):
        alike = list(group)
        size = _CELLS_PER_TASK if seconds <= _QUICK_S else 1
        tasks += [alike[start : start + size] for start in range(0, len(alike), size)]
    return tasks


def _scenario(cell: SweepCell) -> tuple[str, str, int]:
    return cell.source, cell.parameters, cell.seed

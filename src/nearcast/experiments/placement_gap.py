"""How far the placement search is from proven optima, and how long proving takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.plan import Model, Objective, PlanStatus
from nearcast.planning.optimised import search_plan
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan

__all__ = ["PlacementPoint", "run", "summary"]


@dataclass(frozen=True, slots=True)
class PlacementPoint:
    """One seed and objective."""

    seed: int
    objective: str
    searched_ms: float
    """Cost that `optimised` reached within its limit."""
    exact_ms: float
    bound_ms: float
    proved: bool
    gap: float
    """(searched - bound) / bound; 0 where both are 0."""
    exact_cpu_seconds: float


def run(
    seeds: Sequence[int] = range(20),
    *,
    search_limit_s: float = 1.0,
    exact_limit_s: float = 120.0,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[PlacementPoint]:
    """Solve each seed for D1, D2 and D3 by `optimised` and by `exact`."""
    for seed in seeds:
        scenario = generate_placement2022(Placement2022(), seed)
        for objective in Objective:
            begin(f"seed {seed}, {objective}")
            request = PlanRequest(
                model=Model.PLACEMENT, objective=objective, seed=seed, time_limit_s=search_limit_s
            )
            searched = float(search_plan(scenario, request).search["cost"])
            begin_s = time.process_time()
            exact = make_plan(
                scenario, replace(request, method="exact", time_limit_s=exact_limit_s)
            ).report
            bound = exact.bound or 0.0
            yield PlacementPoint(
                seed=seed,
                objective=objective.value,
                searched_ms=searched,
                exact_ms=exact.cost,
                bound_ms=bound,
                proved=exact.status is PlanStatus.OPTIMAL,
                gap=searched / bound - 1 if bound > 0 else float(searched > 1e-9),
                exact_cpu_seconds=time.process_time() - begin_s,
            )


def summary(points: Sequence[PlacementPoint]) -> list[dict[str, object]]:
    """Return one row an objective."""
    rows: list[dict[str, object]] = []
    for objective in dict.fromkeys(point.objective for point in points):
        mine = [point for point in points if point.objective == objective]
        seconds = [point.exact_cpu_seconds for point in mine]
        rows.append(
            {
                "objective": objective,
                "seeds": len(mine),
                "proved": sum(point.proved for point in mine),
                "exact CPU s, median": float(np.median(seconds)),
                "exact CPU s, largest": max(seconds),
                "search gap, mean": float(np.mean([point.gap for point in mine])),
                "search gap, largest": max(point.gap for point in mine),
            }
        )
    return rows

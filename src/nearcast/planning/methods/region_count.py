"""The number of regions: as asked, or the one whose plan has the smallest delay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nearcast.delay.connections import connections_problem, evaluate_connections
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.regions import Regions, divide_into_regions
from nearcast.planning.request import PlanRequest
from nearcast.planning.stopping import Stopwatch

__all__ = ["assign_in_regions"]

Assign = Callable[[Regions], IndexArray]

_MOST_ROWS = 4_000_000
"""Member rows to assign and evaluate in all while every candidate is tried."""


def assign_in_regions(
    scenario: Scenario, request: PlanRequest, assign: Assign, regions: Regions | None = None
) -> tuple[IndexArray, dict[str, Any]]:
    """Return homes, and what to say about the regions they were found with.

    Without known `regions` and with `request.regions` None the number of regions is chosen by the delay of the plan: all
    candidates are tried while that is cheap, else a search walks from the middle downhill; the
    request's time limit ends either after the candidate under way.
    """
    if regions is None and request.regions is not None:
        regions = divide_into_regions(scenario, request.regions, request.seed)
    if regions is not None:
        return assign(regions), {"regions": regions.count}
    evaluate = _evaluation(scenario, request.model)
    counts = _candidates(len(scenario.servers))
    best: list[tuple[float, int, IndexArray]] = []
    tried: dict[int, float] = {}
    watch = Stopwatch(request.time_limit_s)

    def try_count(count: int) -> float:
        if best and watch.expired():
            return tried.get(count, math.inf)
        if count not in tried:
            homes = assign(divide_into_regions(scenario, count, request.seed))
            tried[count] = evaluate(homes)
            if not best or tried[count] < best[0][0]:
                best[:] = [(tried[count], count, homes)]
        return tried[count]

    if len(counts) * len(scenario.members) <= _MOST_ROWS:
        for count in counts:
            try_count(count)
    else:
        _walk_downhill(counts, try_count)
    _, count, homes = best[0]
    return homes, {"regions": count, "regions_tried": dict(sorted(tried.items()))}


def _candidates(server_count: int) -> list[int]:
    """Return the numbers of regions worth trying: 1, 2, 3, 4, 6, 8, 12, ... and every server."""
    steps = [base << shift for shift in range(server_count.bit_length()) for base in (2, 3)]
    return sorted({1, server_count, *(step for step in steps if step < server_count)})


def _walk_downhill(counts: list[int], try_count: Callable[[int], float]) -> None:
    """Try counts from the middle on in steps that halve, as long as they improve."""
    at, step = len(counts) // 2, max(len(counts) // 4, 1)
    while True:
        around = [i for i in (at - step, at + step) if 0 <= i < len(counts)]
        better = min([at, *around], key=lambda i: try_count(counts[i]))
        if better == at:
            if step == 1:
                return
            step = (step + 1) // 2
        at = better


def _evaluation(scenario: Scenario, model: Model) -> Callable[[IndexArray], float]:
    """Return the function that gives a plan's Y; placement goes by the ratio model's."""
    if model is Model.CONNECTIONS:
        connections = connections_problem(scenario)
        return lambda homes: evaluate_connections(connections, homes).y_ms
    ratio = ratio_problem(scenario)
    return lambda homes: evaluate_ratio(ratio, homes).y_ms

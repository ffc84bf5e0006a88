"""The searches of the three models in the form that methods answer in."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np

from nearcast.delay.connections import connections_problem
from nearcast.delay.placement import placement_problem
from nearcast.delay.ratio import ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import BoolArray, IndexArray, Scenario
from nearcast.planning.request import Decision, PlanRequest

__all__ = [
    "load_compiled",
    "search_connections_plan",
    "search_placement_plan",
    "search_ratio_plan",
]


class _Found(Protocol):
    """What every search tells."""

    @property
    def homes(self) -> IndexArray: ...
    @property
    def iterations(self) -> int: ...
    @property
    def moves(self) -> int: ...
    @property
    def seconds(self) -> float: ...


@cache
def load_compiled(model: Model) -> None:
    """Search a tiny scenario, so that a time limit is not spent on loading compiled code."""
    tiny = generate_reloc2021(Reloc2021(topics=2), seed=0)
    request = PlanRequest(model=model, iterations=1000)
    homes = np.zeros(len(tiny.clients), dtype=np.int32)
    if model is Model.RATIO:
        search_ratio_plan(tiny, request, homes)
    elif model is Model.CONNECTIONS:
        search_connections_plan(tiny, request, homes)
    else:
        search_placement_plan(tiny, request)


def search_ratio_plan(scenario: Scenario, request: PlanRequest, start: IndexArray) -> Decision:
    """Search homes of M2 from a plan that is never made worse."""
    from nearcast.planning.ratio.search import search_ratio
    from nearcast.planning.ratio.search_params import SearchParams

    result = search_ratio(
        ratio_problem(scenario),
        SearchParams(
            iterations=request.iterations, time_limit_s=request.time_limit_s, seed=request.seed
        ),
        start_homes=start,
        on_progress=request.on_progress,
    )
    return _decision(result, result.cost_ms)


def search_connections_plan(
    scenario: Scenario, request: PlanRequest, start: IndexArray
) -> Decision:
    """Search homes of M1 from a plan that is never made worse."""
    from nearcast.planning.connections.search import ConnectionsSearchParams, search_connections

    result = search_connections(
        connections_problem(scenario),
        ConnectionsSearchParams(request.seed, request.iterations, request.time_limit_s),
        start,
        request.on_progress,
    )
    return _decision(result, result.cost)


def search_placement_plan(
    scenario: Scenario,
    request: PlanRequest,
    start: tuple[IndexArray, BoolArray] | None = None,
) -> Decision:
    """Search homes, brokers and where to publish of M3, from homes and brokers if given."""
    from nearcast.planning.placement.search import PlacementSearch, search_placement

    result = search_placement(
        placement_problem(scenario),
        request.objective,
        PlacementSearch(request.seed, request.iterations, request.time_limit_s),
        start,
        request.on_progress,
    )
    return _decision(result, result.cost, result.publish, result.brokers)


def _decision(
    found: _Found,
    cost: float,
    publish: IndexArray | None = None,
    brokers: BoolArray | None = None,
) -> Decision:
    return Decision(
        homes=found.homes,
        publish=publish,
        brokers=brokers,
        status=PlanStatus.FEASIBLE,
        search={
            "cost": cost,
            "iterations": found.iterations,
            "moves": found.moves,
            "moves_per_second": found.iterations / max(found.seconds, 1e-9),
            "search_seconds": found.seconds,
        },
    )

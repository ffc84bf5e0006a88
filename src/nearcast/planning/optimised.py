"""The default method: search from the best published plan, then prove how good it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearcast.delay.connections import connections_problem
from nearcast.delay.placement import placement_problem
from nearcast.delay.ratio import ratio_problem
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.bounds import proven_bound
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.registry import find_method
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.stopping import Stopwatch

__all__ = ["Optimised", "search_plan"]

_STARTS = ("nearest", "otos", "otos-centre", "reloc")
_MOST_CLIENTS_FOR_ALL_STARTS = 50_000
"""Above this the search's own starts are as good and much sooner there."""
_PROVED = 1e-9


class Optimised:
    """Local search with a proven bound, for all three models."""

    name = "optimised"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return the best plan found and a proven bound."""
        decision = search_plan(scenario, request)
        cost = float(decision.search["cost"])
        bound = proven_bound(
            scenario,
            request.model,
            request.objective,
            limit_s=request.bound_limit_s,
            upper_cost=cost,
            on_progress=request.on_progress,
        )
        proved = cost - bound.value <= _PROVED * max(abs(cost), 1.0)
        return replace(
            decision,
            status=PlanStatus.OPTIMAL if proved else PlanStatus.FEASIBLE,
            bound=bound.value,
            search={**decision.search, "bound_seconds": bound.seconds},
        )


def search_plan(scenario: Scenario, request: PlanRequest) -> Decision:
    """Return the best plan found, without a bound; ``search["cost"]`` is its cost."""
    if request.model is Model.PLACEMENT:
        return _search_placement(scenario, request)
    watch = Stopwatch(request.time_limit_s)
    start = None if request.start is not None else _best_start(scenario, request)
    left_s = None if request.time_limit_s is None else max(watch.left_s(), 0.05)
    if request.model is Model.CONNECTIONS:
        return _search_connections(scenario, request, start, left_s)
    return _search_ratio(scenario, request, start, left_s)


def _best_start(scenario: Scenario, request: PlanRequest) -> IndexArray:
    """Return the best of the published plans: the search never ends above it."""
    if len(scenario.clients) > _MOST_CLIENTS_FOR_ALL_STARTS:
        return nearest_homes(scenario)
    found = [find_method(name, request.model).plan(scenario, request).homes for name in _STARTS]
    costs = [assess_homes(scenario, homes, request.model).cost for homes in found]
    return found[int(np.argmin(costs))]


def _search_ratio(
    scenario: Scenario, request: PlanRequest, start: IndexArray | None, limit_s: float | None
) -> Decision:
    from nearcast.planning.ratio.search import SearchParams, search_ratio

    result = search_ratio(
        ratio_problem(scenario),
        SearchParams(iterations=request.iterations, time_limit_s=limit_s, seed=request.seed),
        start_homes=start,
        on_progress=request.on_progress,
    )
    return Decision(
        homes=result.homes,
        status=PlanStatus.FEASIBLE,
        search={
            "cost": result.cost_ms,
            "iterations": result.iterations,
            "moves": result.moves,
            "moves_per_second": result.iterations / max(result.seconds, 1e-9),
            "search_seconds": result.seconds,
        },
    )


def _search_connections(
    scenario: Scenario, request: PlanRequest, start: IndexArray | None, limit_s: float | None
) -> Decision:
    from nearcast.planning.connections.search import SearchParameters, search_connections

    result = search_connections(
        connections_problem(scenario),
        SearchParameters(request.seed, request.iterations, limit_s),
        start,
        request.on_progress,
    )
    return Decision(
        homes=result.homes,
        status=PlanStatus.FEASIBLE,
        search={
            "cost": result.cost,
            "iterations": result.iterations,
            "moves": result.moves,
            "moves_per_second": result.iterations / max(result.seconds, 1e-9),
            "search_seconds": result.seconds,
        },
    )


def _search_placement(scenario: Scenario, request: PlanRequest) -> Decision:
    from nearcast.planning.placement.search import PlacementSearch, search_placement

    result = search_placement(
        placement_problem(scenario),
        request.objective,
        PlacementSearch(
            seed=request.seed, iterations=request.iterations, time_limit_s=request.time_limit_s
        ),
        on_progress=request.on_progress,
    )
    return Decision(
        homes=result.homes,
        publish=result.publish,
        brokers=result.brokers,
        status=PlanStatus.FEASIBLE,
        search={
            "cost": result.cost,
            "iterations": result.iterations,
            "moves": result.moves,
            "moves_per_second": result.iterations / max(result.seconds, 1e-9),
            "search_seconds": result.seconds,
        },
    )

"""The default method: search from the best published plan, then prove how good it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.bounds import Bound, proven_bound, quick_bound
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.methods.otos import Otos
from nearcast.planning.methods.otos_centre import OtosCentre
from nearcast.planning.methods.reloc import Reloc
from nearcast.planning.replanning import replan
from nearcast.planning.request import Decision, PlanRequest, Progress
from nearcast.planning.searches import (
    load_compiled,
    search_connections_plan,
    search_placement_plan,
    search_ratio_plan,
)

__all__ = ["Optimised", "best_start", "find_bound", "prove", "proved", "search_plan"]

_MOST_CLIENTS_FOR_ALL_STARTS = 50_000
"""Above this the search's own starts are as good and much sooner there."""
_QUICK_BOUND_MEMBERS = 20_000
_PROVED = 1e-9


class Optimised:
    """Local search with a proven bound, for all three models."""

    name = "optimised"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return the best plan found and a proven bound."""
        if request.on_progress is not None and len(scenario.members) <= _QUICK_BOUND_MEMBERS:
            # So that whoever watches sees the gap close while the search goes on.
            bound_ms = quick_bound(scenario, request.model, request.objective)
            request.on_progress(Progress("search", 0.0, bound=bound_ms))
        return prove(scenario, request, search_plan(scenario, request))


def prove(scenario: Scenario, request: PlanRequest, decision: Decision) -> Decision:
    """Return the decision of a search with a proven bound."""
    try:
        return proved(decision, find_bound(scenario, request, float(decision.search["cost"])))
    except KeyboardInterrupt:
        # Ctrl-C gives the bound up, not the plan.
        return decision


def find_bound(scenario: Scenario, request: PlanRequest, cost: float) -> Bound:
    """Return a proven bound; `cost` is that of the plan found."""
    return proven_bound(
        scenario,
        request.model,
        request.objective,
        limit_s=request.bound_limit_s,
        upper_cost=cost,
        on_progress=request.on_progress,
    )


def proved(decision: Decision, bound: Bound) -> Decision:
    """Return the decision of a search with what the bound says of it."""
    cost = float(decision.search["cost"])
    is_best = cost - bound.value <= _PROVED * max(abs(cost), 1.0)
    return replace(
        decision,
        status=PlanStatus.OPTIMAL if is_best else PlanStatus.FEASIBLE,
        bound=bound.value,
        search={**decision.search, "bound_seconds": bound.seconds},
    )


def search_plan(scenario: Scenario, request: PlanRequest) -> Decision:
    """Return the best plan found, without a bound; ``search["cost"]`` is its cost.

    The time limit is for the search alone: loading compiled code and making the plans to start
    from comes before it.
    """
    if request.time_limit_s is not None:
        load_compiled(request.model)
    if request.start is not None:
        return replan(scenario, request, request.start)
    if request.model is Model.PLACEMENT:
        return search_placement_plan(scenario, request)
    start = best_start(scenario, request)
    if request.model is Model.CONNECTIONS:
        return search_connections_plan(scenario, request, start)
    return search_ratio_plan(scenario, request, start)


def best_start(scenario: Scenario, request: PlanRequest) -> IndexArray:
    """Return the best of the published plans: the search never ends above it."""
    nearest = nearest_homes(scenario)
    if len(scenario.clients) > _MOST_CLIENTS_FOR_ALL_STARTS:
        return nearest
    published = (Otos(), OtosCentre(), Reloc())
    found = [nearest, *(method.plan(scenario, request).homes for method in published)]
    costs = [assess_homes(scenario, homes, request.model).cost for homes in found]
    return found[int(np.argmin(costs))]

"""The proving method: HiGHS for placement, branch and bound for the other two models."""

from __future__ import annotations

from dataclasses import replace

from nearcast.delay.connections import connections_problem
from nearcast.delay.placement import placement_problem
from nearcast.delay.ratio import ratio_problem
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import Scenario
from nearcast.planning.bounds import proven_bound
from nearcast.planning.exact_result import ExactResult
from nearcast.planning.optimised import search_plan
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.stopping import Stopwatch

__all__ = ["DEFAULT_LIMIT_S", "Exact"]

_SEARCH_SHARE, _MOST_SEARCH_S = 0.1, 2.0
_BOUND_SHARE, _LEAST_S = 0.2, 0.1

DEFAULT_LIMIT_S = 300.0
"""A proof may take years; without a limit of the user's it stops here and says how far it got."""


class Exact:
    """Proves optima of small scenarios; at its time limit gives best plan, bound and gap."""

    name = "exact"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return the optimum, or the best plan found within the time limit, with the bound."""
        limit_s = request.time_limit_s or DEFAULT_LIMIT_S
        if request.model is Model.PLACEMENT:
            from nearcast.planning.milp.placement_solve import solve_placement

            placed = solve_placement(
                placement_problem(scenario),
                request.objective,
                limit_s,
                request.seed,
                request.on_progress,
            )
            return _decision(placed)
        return _decision(_prove_homes(scenario, request, limit_s))


def _prove_homes(scenario: Scenario, request: PlanRequest, limit_s: float) -> ExactResult:
    """Branch and bound from a good plan and a good bound, which stay when time runs out."""
    watch = Stopwatch(limit_s)
    search_s = min(_SEARCH_SHARE * limit_s, _MOST_SEARCH_S)
    quick = replace(request, start=None, iterations=None, time_limit_s=search_s)
    plan = search_plan(scenario, quick)
    lower = proven_bound(
        scenario,
        request.model,
        request.objective,
        limit_s=_BOUND_SHARE * limit_s,
        upper_cost=float(plan.search["cost"]),
        on_progress=request.on_progress,
    ).value
    left_s = max(watch.left_s(), _LEAST_S)
    if request.model is Model.RATIO:
        from nearcast.planning.branching.ratio import solve_ratio

        problem = ratio_problem(scenario)
        return solve_ratio(problem, left_s, plan.homes, lower, request.on_progress)
    from nearcast.planning.branching.connections import solve_connections

    connections = connections_problem(scenario)
    return solve_connections(connections, left_s, plan.homes, lower, request.on_progress)


def _decision(result: ExactResult) -> Decision:
    return Decision(
        homes=result.homes,
        publish=result.publish,
        brokers=result.brokers,
        status=result.status,
        bound=result.cost if result.status is PlanStatus.OPTIMAL else result.bound,
        search={"nodes": result.nodes, "search_seconds": result.seconds},
    )

"""The proving method: HiGHS for placement, branch and bound for the other two models."""

from __future__ import annotations

from nearcast.delay.connections import connections_problem
from nearcast.delay.placement import placement_problem
from nearcast.delay.ratio import ratio_problem
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import Scenario
from nearcast.planning.milp.result import ExactResult
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["DEFAULT_LIMIT_S", "Exact"]

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
        if request.model is Model.RATIO:
            from nearcast.planning.milp.ratio_model import solve_ratio

            return _decision(solve_ratio(ratio_problem(scenario), limit_s))
        from nearcast.planning.milp.connections_model import solve_connections

        return _decision(solve_connections(connections_problem(scenario), limit_s))


def _decision(result: ExactResult) -> Decision:
    return Decision(
        homes=result.homes,
        publish=result.publish,
        brokers=result.brokers,
        status=result.status,
        bound=result.cost if result.status is PlanStatus.OPTIMAL else result.bound,
        search={"nodes": result.nodes, "search_seconds": result.seconds},
    )

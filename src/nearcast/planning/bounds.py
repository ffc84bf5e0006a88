"""Proven lower bounds by model: a quick one for every plan, a strong one for `optimised`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from nearcast.delay.connections import connections_problem
from nearcast.delay.placement import placement_problem
from nearcast.delay.ratio import ratio_problem
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import Scenario
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["Bound", "proven_bound", "quick_bound"]


@dataclass(frozen=True, slots=True)
class _Effort:
    """How hard to work on the ratio bound."""

    near_servers: int
    sweeps: int
    quick_sweeps: int


_RATIO_EFFORT = {
    1_500: _Effort(near_servers=40, sweeps=200, quick_sweeps=15),
    20_000: _Effort(near_servers=40, sweeps=100, quick_sweeps=15),
    200_000: _Effort(near_servers=16, sweeps=40, quick_sweeps=6),
    sys.maxsize: _Effort(near_servers=8, sweeps=20, quick_sweeps=3),
}
"""By the largest number of members: from seconds at paper size to a minute at 10^6."""
_MOST_PAIRS_FOR_SOLVER = 2_000
_SOLVER_S = 10.0


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that no plan can be below."""

    value: float
    """Y in ms, or the chosen D."""
    seconds: float


def quick_bound(
    scenario: Scenario, model: Model, objective: Objective, *, limit_s: float | None = None
) -> float:
    """Return a bound that takes about a second at paper size."""
    return proven_bound(scenario, model, objective, quick=True, limit_s=limit_s).value


def proven_bound(
    scenario: Scenario,
    model: Model,
    objective: Objective,
    *,
    quick: bool = False,
    limit_s: float | None = None,
    upper_cost: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Bound:
    """Return the best bound that the effort allows.

    Parameters
    ----------
    quick : little effort.
    limit_s : seconds it may take; None: as the size needs.
    upper_cost : cost of the best plan known; a guide for the prices, and where to stop.
    on_progress : called every now and then with the bound so far.
    """
    if model is Model.RATIO:
        from nearcast.planning.ratio.bound import BoundParams, bound_ratio

        effort = next(one for most, one in _RATIO_EFFORT.items() if len(scenario.members) <= most)
        params = BoundParams(
            sweeps=effort.quick_sweeps if quick else effort.sweeps,
            time_limit_s=limit_s,
            near_servers=effort.near_servers,
        )
        ratio = bound_ratio(ratio_problem(scenario), params, upper_cost, on_progress)
        return Bound(ratio.value_ms, ratio.seconds)
    if model is Model.CONNECTIONS:
        from nearcast.planning.connections.bound import ConnectionsBoundParams, bound_connections

        parameters = ConnectionsBoundParams(sweeps=30 if quick else 300, time_limit_s=limit_s)
        found = bound_connections(
            connections_problem(scenario), parameters, upper_cost, on_progress
        )
        return Bound(found.y_ms, found.seconds)
    return _bound_of_placement(scenario, objective, quick, limit_s, on_progress)


def _bound_of_placement(
    scenario: Scenario,
    objective: Objective,
    quick: bool,
    limit_s: float | None,
    on_progress: Callable[[Progress], None] | None,
) -> Bound:
    """Return the solver's bound of a small scenario, else the shortest roads of all pairs."""
    from nearcast.planning.placement.bound import bound_placement

    problem, watch = placement_problem(scenario), Stopwatch()
    members = len(scenario.members)
    if quick or members * members > _MOST_PAIRS_FOR_SOLVER * len(scenario.topics):
        return Bound(bound_placement(problem, objective), watch.seconds())
    from nearcast.planning.milp.placement_solve import solve_placement

    proof = solve_placement(problem, objective, limit_s or _SOLVER_S, on_progress=on_progress)
    return Bound(proof.bound, watch.seconds())

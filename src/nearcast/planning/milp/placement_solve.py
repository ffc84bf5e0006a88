"""Exact placement plans: a search for a first plan, then the proof that none is better."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from nearcast.delay.placement import PlacementProblem
from nearcast.domain.plan import Objective, PlanStatus
from nearcast.planning.exact_result import ExactResult
from nearcast.planning.milp.placement_model import Choices
from nearcast.planning.milp.placement_proof import PlacementProof
from nearcast.planning.placement.bound import bound_placement
from nearcast.planning.placement.search import PlacementSearch, search_placement
from nearcast.planning.placement.tables import PlacementTables, empty_state, placement_tables
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["solve_placement"]

_SEARCH_ITERATIONS = 1_000_000
_TIE_ITERATIONS = 200_000
_TIE_MS = 1e4
"""ms of delay that a ms of excess counts where ties of D3 are broken by D1."""
_TIE_TOLERANCE = 1e-6
_SEARCH_SHARE = 0.2
"""Part of the time limit that the search for a first plan may take."""


def solve_placement(
    problem: PlacementProblem,
    objective: Objective,
    time_limit_s: float | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> ExactResult:
    """Return the optimal plan, or within the time limit the best one with its bound.

    Ctrl-C during the proof ends it like the time limit.
    """
    watch = Stopwatch(time_limit_s)
    search_s = None if time_limit_s is None else _SEARCH_SHARE * time_limit_s
    search = PlacementSearch(seed, _SEARCH_ITERATIONS, search_s)
    found = search_placement(problem, objective, search, on_progress=on_progress)
    tables = placement_tables(problem, objective)
    proof = PlacementProof(tables, found.homes, found.brokers, found.cost, watch, seed, on_progress)
    proof.bound = bound_placement(problem, objective)
    # An interrupted proof still has a plan and a bound.
    with suppress(KeyboardInterrupt):
        proof.run(_all_choices(tables))
    optimal = proof.bound >= proof.target()
    plan = proof
    if objective is Objective.D3 and optimal and not watch.expired():
        plan = _break_ties(problem, proof, on_progress)
    return ExactResult(
        homes=plan.homes,
        cost=proof.cost,
        bound=proof.cost if optimal else proof.bound,
        status=PlanStatus.OPTIMAL if optimal else PlanStatus.TIME_LIMIT,
        seconds=watch.seconds(),
        nodes=proof.nodes,
        publish=plan.senders(len(problem.member_topic)),
        brokers=plan.brokers,
    )


def _break_ties(
    problem: PlacementProblem,
    proof: PlacementProof,
    on_progress: Callable[[Progress], None] | None,
) -> PlacementProof:
    """Return the plan of least D1 among those of least D3, as far as the time allows.

    Many plans have the least D3, since a delay below the permissible one counts nothing in it.
    An excess is made so dear that a saving of D1 never pays for it; where it does nevertheless,
    the plan without ties broken stays.
    """
    from nearcast.planning.placement.search_kernels import rebuild

    search = PlacementSearch(proof.seed, _TIE_ITERATIONS, max(proof.watch.left_s(), 0.1))
    start = (proof.homes, proof.brokers)
    found = search_placement(problem, Objective.D3, search, start, on_progress, _TIE_MS)
    tables = placement_tables(problem, Objective.D3, _TIE_MS)
    broken = PlacementProof(
        tables, found.homes, found.brokers, found.cost, proof.watch, proof.seed, on_progress
    )
    with suppress(KeyboardInterrupt):
        broken.run(_all_choices(tables))
    state = empty_state(proof.tables, broken.homes, broken.brokers)
    excess = float(rebuild(proof.tables, state))
    return broken if excess <= proof.cost + _TIE_TOLERANCE * (1.0 + proof.cost) else proof


def _all_choices(tables: PlacementTables) -> Choices:
    """Return every choice that an optimal plan may make."""
    publishers, servers = len(tables.row), tables.leg_ms.shape[1]
    topics, clients = len(tables.spool), len(tables.leg_ms)
    broker = tables.spool[:, None] <= tables.storage * (1 + 1e-9) + 1e-9
    if np.any(tables.between_ms > tables.cloud_ms):
        cloud = np.ones((publishers, servers), dtype=np.bool_)
    else:
        # A broker is never worse than the cloud: the nearest server is the way to the cloud.
        cloud = np.zeros((publishers, servers), dtype=np.bool_)
        cloud[np.arange(publishers), tables.by_leg[tables.client, 0]] = True
    home = np.ones((clients, servers), dtype=np.bool_)
    deaf = np.diff(tables.heard_start) == 0
    home[deaf] = False
    home[deaf, tables.by_leg[deaf, 0]] = True
    return Choices(
        broker=broker,
        home=home,
        send=broker[tables.topic],
        cloud=cloud,
        must=np.zeros((topics, servers), dtype=np.bool_),
    )

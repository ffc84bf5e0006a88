from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.placement import (
    PlacementCost,
    PlacementProblem,
    evaluate_placement,
    placement_problem,
)
from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.plan import Objective, PlanStatus
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.planning.milp import placement_proof, placement_solve
from nearcast.planning.milp.placement_solve import solve_placement
from nearcast.planning.placement.search import PlacementSearchResult
from nearcast.planning.request import Progress

# The search would find these optima by itself: a poor first plan makes the proof do the work.


def tiny_problem(seed: int) -> PlacementProblem:
    """Two servers, three clients, two topics, measured delays, the cloud at times shorter."""
    rng = np.random.default_rng(seed)
    infinite = np.full(2, np.inf)
    role = rng.integers(0, 3, 6)
    between = rng.uniform(0.1, 14, (2, 2)) * (1 - np.eye(2))
    scenario = Scenario(
        settings=ScenarioSettings("tiny", 10, 10),
        servers=Servers(
            pa.array([0, 1]),
            rng.uniform(0, 10, 2),
            rng.uniform(0, 10, 2),
            rng.uniform(2, 9, 2),
            infinite,
            infinite,
            pa.array(["n", "n"]),
        ),
        clients=Clients(pa.array([0, 1, 2]), rng.uniform(0, 10, 3), rng.uniform(0, 10, 3)),
        topics=Topics(
            pa.array([0, 1]),
            rng.uniform(2, 6, 2),
            np.array([rng.uniform(1, 12), 3.0]),
            rng.uniform(0, 1, 2),
        ),
        members=Members(
            np.repeat(np.arange(2, dtype=np.int32), 3),
            np.tile(np.arange(3, dtype=np.int32), 2),
            role != 1,
            role != 2,
            np.ones(6),
        ),
        client_server_ms=rng.uniform(0.1, 9, (3, 2)),
        server_server_ms=between,
    )
    return placement_problem(scenario)


def all_costs(problem: PlacementProblem) -> Iterator[PlacementCost]:
    """Yield the cost of every plan there is."""
    sending = np.flatnonzero(problem.publishes)
    publish = np.full(6, -1, dtype=np.int32)
    for bits in product([False, True], repeat=4):
        brokers = np.array(bits).reshape(2, 2)
        if np.any(problem.spool @ brokers > problem.storage):
            continue
        for homes in product([0, 1], repeat=3):
            for at in product([0, 1], repeat=len(sending)):
                publish[sending] = at
                yield evaluate_placement(problem, np.array(homes, dtype=np.int32), publish, brokers)


def brute_force(problem: PlacementProblem) -> dict[Objective, float]:
    costs = list(all_costs(problem))
    return {one: min(cost.value(one) for cost in costs) for one in Objective}


def worst_start(
    problem: PlacementProblem, objective: Objective, *_: object, **__: object
) -> object:
    """Stand in for the search: everybody at server 0 and nothing placed."""
    homes = np.zeros(problem.network.client_count, dtype=np.int32)
    publish = np.where(problem.publishes, 0, -1).astype(np.int32)
    brokers = np.zeros((problem.topic_count, problem.network.server_count), dtype=np.bool_)
    cost = evaluate_placement(problem, homes, publish, brokers).value(objective)
    # The proof prices senders itself, so that its cost may be lower from the start.
    return PlacementSearchResult(homes, publish, brokers, cost, 0, 0, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_the_proved_optimum_is_the_brute_force_optimum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement_solve, "search_placement", worst_start)
    problem = tiny_problem(seed)
    for objective, optimum in brute_force(problem).items():
        result = solve_placement(problem, objective)
        assert result.status is PlanStatus.OPTIMAL
        assert result.cost == pytest.approx(optimum, rel=1e-6, abs=1e-6)
        assert result.bound <= optimum + 1e-6
        assert result.publish is not None
        assert result.brokers is not None
        value = evaluate_placement(problem, result.homes, result.publish, result.brokers)
        assert value.value(objective) == pytest.approx(result.cost, rel=1e-9, abs=1e-9)
        assert np.all(value.storage_used <= problem.storage * (1 + 1e-9))


def test_ties_of_d3_are_broken_by_d1(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SEARCH_ITERATIONS", "_TIE_ITERATIONS"):
        monkeypatch.setattr(placement_solve, name, 100)
    ties = 0
    for seed in range(12):
        problem = tiny_problem(seed)
        # Long enough that many plans are in time.
        problem = replace(problem, permissible_ms=problem.permissible_ms + 14)
        costs = [
            (cost.value(Objective.D3), cost.value(Objective.D1)) for cost in all_costs(problem)
        ]
        least = min(costs)[0]
        tied = sorted({round(d1, 9) for d3, d1 in costs if d3 <= least + 1e-9})
        ties += len(tied) > 1
        result = solve_placement(problem, Objective.D3)
        assert result.publish is not None
        assert result.brokers is not None
        value = evaluate_placement(problem, result.homes, result.publish, result.brokers)
        assert value.value(Objective.D3) == pytest.approx(least, rel=1e-6, abs=1e-6)
        assert value.value(Objective.D1) == pytest.approx(tied[0], rel=1e-6)
    assert ties > 3


@pytest.mark.parametrize("objective", list(Objective))
def test_dividing_and_the_solver_alone_prove_the_same(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Placement2022(
        clients=8, servers=3, topics=3, smallest_topic=3, largest_topic=4, spools_per_server=1.3
    )
    problem = placement_problem(generate_placement2022(small, 2))
    usual = solve_placement(problem, objective)
    monkeypatch.setattr(placement_solve, "search_placement", worst_start)
    monkeypatch.setattr(placement_proof, "_SOLVER_ARCS", 10**9)
    alone = solve_placement(problem, objective)
    monkeypatch.setattr(placement_proof, "_SOLVER_ARCS", 0)
    divided = solve_placement(problem, objective)
    assert usual.status is alone.status is divided.status is PlanStatus.OPTIMAL
    assert alone.cost == pytest.approx(usual.cost, rel=1e-6)
    assert divided.cost == pytest.approx(usual.cost, rel=1e-6)
    assert divided.nodes >= alone.nodes == 1


def test_a_time_limit_gives_the_best_plan_with_an_honest_bound() -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 2))
    told: list[str] = []
    result = solve_placement(
        problem, Objective.D1, 0.2, on_progress=lambda progress: told.append(progress.stage)
    )
    assert result.status is PlanStatus.TIME_LIMIT
    assert 0 < result.bound < result.cost
    assert "search" in told


def test_ctrl_c_during_the_proof_gives_the_best_plan_with_an_honest_bound() -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 2))

    def press(progress: Progress) -> None:
        if progress.stage == "solve" and progress.bound is not None and progress.bound > 200:
            raise KeyboardInterrupt

    result = solve_placement(problem, Objective.D1, on_progress=press)
    assert result.status is PlanStatus.TIME_LIMIT
    assert 200 < result.bound < result.cost
    assert result.publish is not None
    assert result.brokers is not None
    value = evaluate_placement(problem, result.homes, result.publish, result.brokers)
    assert value.value(Objective.D1) == pytest.approx(result.cost)


@pytest.mark.parametrize("objective", list(Objective))
def test_a_poor_first_plan_leads_to_the_same_optimum(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = Placement2022(clients=16, servers=5, topics=4, largest_topic=7)
    problem = placement_problem(generate_placement2022(middle, 3))
    usual = solve_placement(problem, objective)
    monkeypatch.setattr(placement_solve, "search_placement", worst_start)
    poor = solve_placement(problem, objective)
    assert usual.status is poor.status is PlanStatus.OPTIMAL
    assert poor.cost == pytest.approx(usual.cost, rel=1e-6)

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.connections import connections_problem, evaluate_connections
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import PlanStatus
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import PlanningError
from nearcast.planning.branching import branch
from nearcast.planning.branching.connections import solve_connections
from nearcast.planning.branching.ratio import solve_ratio


def small_scenario(seed: int, clients: int, servers: int, topics: int = 2) -> Scenario:
    """Members publish, subscribe or both; every second seed has measured delays."""
    rng = np.random.default_rng(seed)
    rows = [(n, c) for n in range(topics) for c in range(clients) if rng.random() < 0.7]
    rows += [(n, 0) for n in range(topics) if (n, 0) not in rows]
    rows.sort()
    role, measured = rng.integers(0, 4, len(rows)), seed % 2 == 1
    between = rng.uniform(0.1, 14, (servers, servers)) * (1 - np.eye(servers))
    return Scenario(
        settings=ScenarioSettings("small", 10, 10, ms_per_km=0.5, beta_ms=0.7),
        servers=Servers(
            pa.array(range(servers)),
            rng.uniform(0, 10, servers),
            rng.uniform(0, 10, servers),
            rng.uniform(2, 8, servers),
            rng.uniform(5, 20, servers),
            rng.integers(1, 3, servers).astype(np.float64),
            pa.array(["n"] * servers),
        ),
        clients=Clients(
            pa.array(range(clients)), rng.uniform(0, 10, clients), rng.uniform(0, 10, clients)
        ),
        topics=Topics(
            pa.array(range(topics)),
            rng.uniform(2, 6, topics),
            np.full(topics, np.inf),
            np.zeros(topics),
        ),
        members=Members(
            np.array([n for n, _ in rows], dtype=np.int32),
            np.array([c for _, c in rows], dtype=np.int32),
            role != 1,
            role != 2,
            np.ones(len(rows)),
        ),
        client_server_ms=rng.uniform(0.1, 6, (clients, servers)) if measured else None,
        server_server_ms=between if measured else None,
    )


def all_homes(clients: int, servers: int) -> list[np.ndarray]:
    return [np.array(h, dtype=np.int32) for h in product(range(servers), repeat=clients)]


@pytest.mark.parametrize("seed", range(8))
def test_exact_ratio_is_the_brute_force_optimum(seed: int) -> None:
    problem = ratio_problem(small_scenario(seed, clients=5, servers=3))
    optimum = min(evaluate_ratio(problem, homes).y_ms for homes in all_homes(5, 3))
    result = solve_ratio(problem)
    assert result.status is PlanStatus.OPTIMAL
    assert result.cost == pytest.approx(optimum, rel=1e-9)
    assert result.bound == result.cost
    assert evaluate_ratio(problem, result.homes).y_ms == pytest.approx(result.cost, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_exact_connections_is_the_brute_force_optimum(seed: int) -> None:
    problem = connections_problem(small_scenario(seed, clients=5, servers=3))
    optimum = min(evaluate_connections(problem, homes).y_ms for homes in all_homes(5, 3))
    result = solve_connections(problem)
    assert result.status is PlanStatus.OPTIMAL
    assert result.cost == pytest.approx(optimum, rel=1e-9)
    assert evaluate_connections(problem, result.homes).y_ms == pytest.approx(result.cost, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_partial_plan_is_priced_below_all_its_completions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ratio_problem(small_scenario(seed, clients=5, servers=2))
    seen: dict[str, Any] = {}

    def catch(tables: object, *_: object) -> object:
        seen["tables"] = tables
        return None

    monkeypatch.setattr("nearcast.planning.branching.ratio.solve_homes", catch)
    solve_ratio(problem)
    from nearcast.planning.branching.branch_kernels import cost_of

    for partial in product([-1, 0, 1], repeat=5):
        least = min(
            evaluate_ratio(problem, homes).y_ms
            for homes in all_homes(5, 2)
            if all(p in (-1, h) for p, h in zip(partial, homes, strict=True))
        )
        assert cost_of(seen["tables"], np.array(partial, dtype=np.int32)) <= least + 1e-9


def test_a_large_problem_stops_in_time_with_an_honest_bound() -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(topics=8), 1))
    homes = problem.network.nearest_servers(1)[1][:, 0].copy()
    told: list[float | None] = []
    result = solve_ratio(
        problem, 0.3, upper_homes=homes, on_progress=lambda progress: told.append(progress.bound)
    )
    assert result.status is PlanStatus.TIME_LIMIT
    assert result.cost <= evaluate_ratio(problem, homes).y_ms
    assert 0 < result.bound < result.cost


def test_a_known_bound_that_is_met_ends_the_proof_at_once() -> None:
    problem = ratio_problem(small_scenario(4, clients=5, servers=3))
    best = solve_ratio(problem)
    again = solve_ratio(problem, upper_homes=best.homes, lower_bound=best.cost)
    assert again.status is PlanStatus.OPTIMAL
    assert again.nodes == 0


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "_MOST_PAIRS", 1)
    with pytest.raises(PlanningError, match="optimised"):
        solve_ratio(ratio_problem(small_scenario(0, clients=4, servers=2)))

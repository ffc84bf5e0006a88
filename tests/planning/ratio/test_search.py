"""The search as a whole: reproducible, never worse than its starts, optimal where that is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.errors import ConfigError
from nearcast.planning.ratio.search import SearchParams, default_iterations, search_ratio
from nearcast.planning.ratio.starts import centre_homes
from nearcast.planning.request import Progress


def problem_of(seed: int = 0, **parameters: Any) -> RatioProblem:
    return ratio_problem(generate_reloc2021(Reloc2021(**parameters), seed))


def nearest_homes(problem: RatioProblem) -> np.ndarray:
    return np.argmin(problem.network.leg_matrix_ms(), axis=1).astype(np.int32)


def test_the_same_seed_and_iterations_give_the_same_plan() -> None:
    problem = problem_of(topics=16)
    first, again = (search_ratio(problem, SearchParams(iterations=50_000)) for _ in range(2))
    assert np.array_equal(first.homes, again.homes)
    assert first.cost_ms == again.cost_ms
    assert first.moves == again.moves
    assert first.iterations >= 50_000


@pytest.mark.parametrize("spool_per_member", [2.0, 8.0])
def test_the_plan_costs_what_it_says_and_beats_nearest_and_kept_together_topics(
    spool_per_member: float,
) -> None:
    problem = problem_of(sigma_km=10, spool_per_member=spool_per_member)
    result = search_ratio(problem, SearchParams(iterations=300_000))
    nearest = nearest_homes(problem)
    together = centre_homes(problem, nearest)
    assert result.cost_ms == pytest.approx(evaluate_ratio(problem, result.homes).y_ms, abs=1e-9)
    assert result.cost_ms < evaluate_ratio(problem, nearest).y_ms
    assert result.cost_ms < evaluate_ratio(problem, together).y_ms


def test_a_search_too_short_and_too_hot_to_help_returns_its_start() -> None:
    problem = problem_of(topics=16)
    good = search_ratio(problem, SearchParams(iterations=400_000))
    short = search_ratio(
        problem, SearchParams(iterations=1, hot=50.0, cold=50.0), start_homes=good.homes
    )
    assert short.cost_ms <= good.cost_ms


@pytest.mark.parametrize("seed", range(4))
def test_on_tiny_instances_the_search_finds_the_optimum(seed: int) -> None:
    problem = problem_of(seed, topics=1, servers_per_side=2, storage=15.0, compute=120.0)
    clients, servers = problem.network.client_count, 4
    pinned = np.arange(clients) >= 7
    start = nearest_homes(problem)
    result = search_ratio(problem, SearchParams(iterations=100_000, seed=seed))
    # Every plan that differs from the search's in the first seven clients only.
    costs = []
    for homes in itertools.product(range(servers), repeat=7):
        plan = np.where(pinned, result.homes, start)
        plan[:7] = homes
        costs.append(evaluate_ratio(problem, plan.astype(np.int32)).y_ms)
        if len(costs) >= 4000:
            break
    assert result.cost_ms <= min(costs) + 1e-9


def test_a_time_limit_ends_the_search_and_progress_is_reported() -> None:
    seen: list[Progress] = []
    result = search_ratio(problem_of(), SearchParams(time_limit_s=0.2), on_progress=seen.append)
    assert result.iterations > 0
    assert len(seen) == len(result.trace) > 1
    assert seen[-1].fraction == 1.0
    assert seen[-1].cost == pytest.approx(result.cost_ms, abs=1e-9)


def test_a_high_price_keeps_every_spool_where_it_is() -> None:
    problem = problem_of(topics=16)
    kept = nearest_homes(problem)
    dear = search_ratio(
        problem, SearchParams(iterations=100_000), kept_homes=kept, migration_price_ms=1e6
    )
    free = search_ratio(problem, SearchParams(iterations=100_000), kept_homes=kept)
    assert dear.migrated_spools == 0
    assert free.migrated_spools > 0
    assert free.cost_ms <= dear.cost_ms <= evaluate_ratio(problem, kept).y_ms


def test_one_server_leaves_nothing_to_search() -> None:
    problem = problem_of(topics=2, servers_per_side=1)
    result = search_ratio(problem, SearchParams())
    assert not result.homes.any()
    assert result.moves == 0


def test_the_default_length_grows_with_the_instance() -> None:
    assert default_iterations(10) == default_iterations(1000)
    assert default_iterations(1000) < default_iterations(10**6) < 1000 * default_iterations(1000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"time_limit_s": 0.0},
        {"seed": -1},
        {"hot": 0.01, "cold": 0.1},
        {"group_chance": 0.7, "swap_chance": 0.7},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SearchParams(**wrong)

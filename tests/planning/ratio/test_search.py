"""The search as a whole: reproducible, never worse than its starts, optimal where that is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import (
    Clients,
    IndexArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError
from nearcast.planning.ratio.search import default_iterations, search_ratio
from nearcast.planning.ratio.search_params import SearchParams
from nearcast.planning.ratio.starts import centre_homes
from nearcast.planning.request import Progress


def problem_of(seed: int = 0, **parameters: Any) -> RatioProblem:
    return ratio_problem(generate_reloc2021(Reloc2021(**parameters), seed))


def nearest_homes(problem: RatioProblem) -> IndexArray:
    nearest: IndexArray = np.argmin(problem.network.leg_matrix_ms(), axis=1).astype(np.int32)
    return nearest


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


def tiny_problem(seed: int) -> RatioProblem:
    """Three servers, seven clients, two topics, limits that bind."""
    rng = np.random.default_rng(seed)
    topic, client = np.nonzero(rng.random((2, 7)) < 0.7)
    scenario = Scenario(
        settings=ScenarioSettings("tiny", 10.0, 10.0, cloud_ms=2.0),
        servers=Servers(
            ids=pa.array(range(3)),
            x_km=rng.uniform(0, 10, 3),
            y_km=rng.uniform(0, 10, 3),
            storage=np.full(3, 5.0),
            compute=np.full(3, 12.0),
            client_limit=np.full(3, np.inf),
            net_id=pa.array(["net0"] * 3),
        ),
        clients=Clients(pa.array(range(7)), rng.uniform(0, 10, 7), rng.uniform(0, 10, 7)),
        topics=Topics(
            ids=pa.array(range(2)),
            spool=np.array([3.0, 4.0]),
            permissible_ms=np.full(2, np.inf),
            process_ms=np.zeros(2),
        ),
        members=Members(
            topic=topic.astype(np.int32),
            client=client.astype(np.int32),
            publishes=rng.random(len(topic)) < 0.9,
            subscribes=rng.random(len(topic)) < 0.9,
            rate_hz=np.ones(len(topic)),
        ),
    )
    return ratio_problem(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_on_tiny_instances_the_search_finds_the_optimum(seed: int) -> None:
    problem = tiny_problem(seed)
    result = search_ratio(problem, SearchParams(iterations=100_000, seed=seed))
    plans = (np.array(homes, dtype=np.int32) for homes in itertools.product(range(3), repeat=7))
    optimum = min(evaluate_ratio(problem, plan).y_ms for plan in plans)
    assert result.cost_ms == pytest.approx(optimum, abs=1e-9)


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
    assert default_iterations(10) < default_iterations(100) == default_iterations(1000)
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

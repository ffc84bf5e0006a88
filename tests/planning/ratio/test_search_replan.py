"""Re-planning after a small change: cheap, reproducible and never worse than keeping the plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import IndexArray
from nearcast.planning.ratio.replan import replan_ratio
from nearcast.planning.ratio.search import search_ratio
from nearcast.planning.ratio.search_params import SearchParams


@pytest.fixture(scope="module")
def moved() -> tuple[RatioProblem, IndexArray, IndexArray]:
    """A problem of which some clients moved, the plan made before, and who moved."""
    scenario = generate_reloc2021(Reloc2021(), 5)
    kept = search_ratio(ratio_problem(scenario), SearchParams(iterations=500_000)).homes
    rng = np.random.default_rng(5)
    changed = rng.choice(len(kept), 10, replace=False).astype(np.int32)
    x_km = scenario.clients.x_km.copy()
    x_km[changed] = rng.uniform(0, 25, len(changed))
    now = replace(scenario, clients=replace(scenario.clients, x_km=x_km))
    return ratio_problem(now), kept, changed


def spools_of(problem: RatioProblem, homes: IndexArray) -> set[tuple[int, int]]:
    """Return (topic, server) of every spool; here all members publish."""
    servers = homes[problem.member_client]
    return set(zip(problem.member_topic.tolist(), servers.tolist(), strict=True))


def test_a_replan_gains_by_looking_at_the_changed_clients_only(
    moved: tuple[RatioProblem, IndexArray, IndexArray],
) -> None:
    problem, kept, changed = moved
    result = replan_ratio(problem, SearchParams(iterations=20_000), kept, changed=changed)
    before = evaluate_ratio(problem, kept).y_ms
    assert result.cost_ms == pytest.approx(evaluate_ratio(problem, result.homes).y_ms, abs=1e-9)
    assert result.cost_ms < before
    assert np.count_nonzero(result.homes != kept) < len(kept) / 2


def test_a_replan_is_reproducible(moved: tuple[RatioProblem, IndexArray, IndexArray]) -> None:
    problem, kept, changed = moved
    first, again = (
        replan_ratio(problem, SearchParams(iterations=20_000), kept, 1.0, changed) for _ in range(2)
    )
    assert np.array_equal(first.homes, again.homes)
    assert first.migrated_spools == again.migrated_spools


def test_a_dearer_migration_moves_no_more_spools_and_counts_them_right(
    moved: tuple[RatioProblem, IndexArray, IndexArray],
) -> None:
    problem, kept, changed = moved
    params = SearchParams(iterations=20_000)
    counts = []
    for price_ms in (0.0, 2.0, 1e6):
        result = replan_ratio(problem, params, kept, price_ms, changed)
        new_spools = spools_of(problem, result.homes) - spools_of(problem, kept)
        assert result.migrated_spools == len(new_spools)
        counts.append(result.migrated_spools)
    assert counts[0] >= counts[1] >= counts[2] == 0


def test_without_a_list_of_changes_everybody_is_looked_at(
    moved: tuple[RatioProblem, IndexArray, IndexArray],
) -> None:
    problem, kept, _ = moved
    result = replan_ratio(problem, SearchParams(iterations=20_000), kept)
    assert result.iterations >= len(kept)
    assert result.cost_ms <= evaluate_ratio(problem, kept).y_ms


def test_nothing_changed_means_nothing_gets_worse() -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(topics=8), 1))
    kept = search_ratio(problem, SearchParams(iterations=200_000)).homes
    nobody = np.zeros(0, dtype=np.int32)
    result = replan_ratio(problem, SearchParams(), kept, 0.5, nobody)
    assert np.array_equal(result.homes, kept)
    assert result.migrated_spools == 0

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.placement import PlacementProblem, evaluate_placement, placement_problem
from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import PlanningError
from nearcast.planning.placement import tables as tables_module
from nearcast.planning.placement.bound import bound_placement
from nearcast.planning.placement.complete import complete_placement
from nearcast.planning.placement.search import PlacementSearch, search_placement
from nearcast.planning.placement.tables import empty_state, placement_tables


def tiny_problem(seed: int, measured: bool = False) -> PlacementProblem:
    """2-3 servers, 3-4 clients, 2 topics; members publish, subscribe or both."""
    rng = np.random.default_rng(seed)
    servers, clients, topics = int(rng.integers(2, 4)), int(rng.integers(3, 5)), 2
    rows = [(n, c) for n in range(topics) for c in range(clients) if rng.random() < 0.8]
    rows += [(n, 0) for n in range(topics) if (n, 0) not in rows]
    rows.sort()
    role = rng.integers(0, 3, len(rows))
    between = rng.uniform(0.1, 14, (servers, servers)) * (1 - np.eye(servers))
    infinite = np.full(servers, np.inf)
    scenario = Scenario(
        settings=ScenarioSettings("tiny", 10, 10, ms_per_km=float(rng.choice([0.1, 2.0]))),
        servers=Servers(
            pa.array(range(servers)),
            rng.uniform(0, 10, servers),
            rng.uniform(0, 10, servers),
            rng.uniform(2, 9, servers),
            infinite,
            infinite,
            pa.array(["n"] * servers),
        ),
        clients=Clients(
            pa.array(range(clients)), rng.uniform(0, 10, clients), rng.uniform(0, 10, clients)
        ),
        topics=Topics(
            pa.array(range(topics)),
            rng.uniform(2, 6, topics),
            np.array([rng.uniform(0.2, 8), rng.choice([1.0, np.inf])]),
            rng.uniform(0, 1, topics),
        ),
        members=Members(
            np.array([n for n, _ in rows], dtype=np.int32),
            np.array([c for _, c in rows], dtype=np.int32),
            role != 1,
            role != 2,
            np.ones(len(rows)),
        ),
        client_server_ms=rng.uniform(0.1, 9, (clients, servers)) if measured else None,
        server_server_ms=between if measured else None,
    )
    return placement_problem(scenario)


def brute_force(problem: PlacementProblem, objective: Objective) -> float:
    """Try all brokers, homes and servers to send to."""
    servers, topics = problem.network.server_count, problem.topic_count
    senders = np.flatnonzero(problem.publishes)
    best = np.inf
    for bits in product([False, True], repeat=servers * topics):
        brokers = np.array(bits).reshape(topics, servers)
        if np.any(problem.spool @ brokers > problem.storage):
            continue
        for homes in product(range(servers), repeat=problem.network.client_count):
            best = min(best, _best_senders(problem, objective, np.array(homes), brokers, senders))
    return best


def _best_senders(
    problem: PlacementProblem,
    objective: Objective,
    homes: np.ndarray,
    brokers: np.ndarray,
    senders: np.ndarray,
) -> float:
    """Choose the best server of each publisher by plain loops over eq. (11)."""
    network, total = problem.network, 0.0
    legs = network.leg_matrix_ms()
    for row in senders:
        n, m = problem.member_topic[row], problem.member_client[row]
        options = []
        for at in range(network.server_count):
            cost = 0.0
            for other in range(len(problem.member_topic)):
                if problem.member_topic[other] != n or other == row:
                    continue
                if not problem.subscribes[other]:
                    continue
                c = problem.member_client[other]
                middle = (
                    network.server_server_ms[at, homes[c]]
                    if brokers[n, at]
                    else 2 * network.cloud_ms
                )
                delay = legs[m, at] + problem.process_ms[n] + middle + legs[c, homes[c]]
                if objective is Objective.D2:
                    km = np.hypot(
                        network.client_x_km[m] - network.client_x_km[c],
                        network.client_y_km[m] - network.client_y_km[c],
                    )
                    delay /= km + 0.1
                if objective is Objective.D3:
                    delay = max(delay - problem.permissible_ms[n], 0.0)
                cost += delay
            options.append(cost)
        total += min(options)
    return total


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize(("seed", "measured"), [(0, False), (1, True), (2, False), (3, True)])
def test_the_search_finds_the_brute_force_optimum(
    seed: int, measured: bool, objective: Objective
) -> None:
    problem = tiny_problem(seed, measured)
    found = search_placement(problem, objective, PlacementSearch(iterations=30_000))
    optimum = brute_force(problem, objective)
    assert found.cost == pytest.approx(optimum, rel=1e-9, abs=1e-9)
    assert bound_placement(problem, objective) <= optimum + 1e-9


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("measured", [False, True])
def test_incremental_costs_equal_the_evaluation(objective: Objective, measured: bool) -> None:
    from nearcast.planning.placement import search_kernels as kernels

    rng = np.random.default_rng(7)
    problem = (
        tiny_problem(5, measured=True)
        if measured
        else placement_problem(generate_placement2022(Placement2022(), 3))
    )
    tables = placement_tables(problem, objective)
    servers, clients = problem.network.server_count, problem.network.client_count
    homes = rng.integers(0, servers, clients).astype(np.int32)
    state = empty_state(tables, homes, rng.random((problem.topic_count, servers)) < 0.4)
    cost = kernels.rebuild(tables, state)
    publish = np.full(len(problem.member_topic), -1, dtype=np.int32)
    for _ in range(200):
        if rng.random() < 0.5:
            c, to = int(rng.integers(clients)), int(rng.integers(servers))
            cost += kernels.home_delta(tables, state, c, to)
            kernels.apply_home(tables, state, c, to)
        else:
            n = int(rng.integers(problem.topic_count))
            shut = np.flatnonzero(~state.is_broker[n])
            running = np.flatnonzero(state.is_broker[n])
            opened = int(rng.choice(shut)) if len(shut) and rng.random() < 0.7 else -1
            closed = int(rng.choice(running)) if len(running) and rng.random() < 0.7 else -1
            cost += kernels.broker_delta(tables, state, n, opened, closed)
            kernels.apply_broker(tables, state, n, opened, closed)
        kernels.senders(tables, state, publish)
        value = evaluate_placement(problem, state.homes, publish, state.is_broker)
        assert value.value(objective) == pytest.approx(cost, rel=1e-9, abs=1e-9)
        assert np.allclose(state.used, value.storage_used)


@pytest.mark.parametrize("objective", list(Objective))
def test_a_plan_respects_storage_and_reports_its_own_cost(objective: Objective) -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 8))
    found = search_placement(problem, objective, PlacementSearch(iterations=50_000))
    value = evaluate_placement(problem, found.homes, found.publish, found.brokers)
    assert value.value(objective) == pytest.approx(found.cost, rel=1e-9)
    assert np.all(value.storage_used <= problem.storage * (1 + 1e-9))
    assert found.iterations == 50_000
    assert bound_placement(problem, objective) <= found.cost


def test_the_same_seed_and_iterations_give_the_same_plan() -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 4))
    one, two = (
        search_placement(problem, Objective.D3, PlacementSearch(seed=3, iterations=30_000))
        for _ in range(2)
    )
    assert np.array_equal(one.homes, two.homes)
    assert np.array_equal(one.publish, two.publish)
    assert np.array_equal(one.brokers, two.brokers)
    assert one.cost == two.cost


def test_a_start_is_never_made_worse_and_progress_ends_at_one() -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 4))
    good = search_placement(problem, Objective.D1, PlacementSearch(iterations=300_000))
    told: list[float] = []
    again = search_placement(
        problem,
        Objective.D1,
        PlacementSearch(seed=1, iterations=2_000),
        start=(good.homes, good.brokers),
        on_progress=lambda progress: told.append(progress.fraction),
    )
    assert again.cost <= good.cost + 1e-9
    assert told[-1] == 1.0


@pytest.mark.parametrize("objective", list(Objective))
def test_completed_homes_fit_storage_and_save_against_the_cloud(objective: Objective) -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 6))
    homes = np.ascontiguousarray(problem.network.nearest_servers(1)[1][:, 0])
    publish, brokers = complete_placement(problem, homes, objective)
    value = evaluate_placement(problem, homes, publish, brokers)
    alone = evaluate_placement(problem, homes, publish, np.zeros_like(brokers))
    assert np.array_equal(publish, homes[problem.member_client])
    assert np.all(value.storage_used <= problem.storage)
    assert value.value(objective) < alone.value(objective)
    # Nothing that still fits would save more.
    for topic, server in np.argwhere(~brokers):
        if value.storage_used[server] + problem.spool[topic] <= problem.storage[server]:
            more = brokers.copy()
            more[topic, server] = True
            better = evaluate_placement(problem, homes, publish, more).value(objective)
            assert better >= value.value(objective) - 1e-9


def test_too_many_pairs_are_refused_with_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tiny_problem(0)
    monkeypatch.setattr(tables_module, "_MOST_PAIRS", 1)
    with pytest.raises(PlanningError, match="every publisher/subscriber pair"):
        placement_tables(problem, Objective.D1)


def test_of_iterations_and_a_time_limit_the_first_ends_the_search() -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), 1))
    by_iterations = search_placement(
        problem, Objective.D1, PlacementSearch(iterations=20_000, time_limit_s=1e6)
    )
    by_time = search_placement(
        problem, Objective.D1, PlacementSearch(iterations=10**12, time_limit_s=0.05)
    )
    alone = search_placement(problem, Objective.D1, PlacementSearch(iterations=20_000))
    assert by_iterations.iterations == alone.iterations == 20_000
    assert by_iterations.cost == pytest.approx(alone.cost)
    assert 0 < by_time.iterations < 10**12

"""The M1 bound against brute force, and how near it comes to what the search finds."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.connections import (
    ConnectionsProblem,
    connections_problem,
    evaluate_connections,
)
from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.planning.connections.bound import ConnectionsBoundParams, bound_connections
from nearcast.planning.connections.search import ConnectionsSearchParams, search_connections
from nearcast.planning.request import Progress


def tight_problem(seed: int, clients: int = 6, servers: int = 3) -> ConnectionsProblem:
    """Scarce storage or few places, so that the limits bind; some members only do one thing."""
    rng = np.random.default_rng(seed)
    topics = int(rng.integers(1, 6))
    rows = [
        (topic, client)
        for topic in range(topics)
        for client in sorted(rng.choice(clients, rng.integers(2, clients + 1), replace=False))
    ]
    topic, client = np.array(rows, dtype=np.int32).T.copy()
    publishes = rng.random(len(rows)) < 0.85
    limits = rng.choice([0.0, 1.0, 1.5, 2.0, 3.0, np.inf], servers)
    return connections_problem(
        Scenario(
            ScenarioSettings(
                "tight", 10.0, 10.0, cloud_ms=rng.uniform(0, 6), beta_ms=rng.uniform(0, 2)
            ),
            Servers(
                pa.array(range(servers)),
                rng.uniform(0, 10, servers),
                rng.uniform(0, 10, servers),
                storage=rng.choice([0.0, 0.7, 2.0, 3.0, np.inf], servers),
                compute=np.full(servers, np.inf),
                client_limit=limits,
                net_id=pa.array(["net0"] * servers),
            ),
            Clients(
                pa.array(range(clients)), rng.uniform(0, 10, clients), rng.uniform(0, 10, clients)
            ),
            Topics(
                pa.array(range(topics)),
                rng.choice([0.0, 0.5, 1.0, 2.3], topics),
                np.full(topics, np.inf),
                np.zeros(topics),
            ),
            Members(
                topic,
                client,
                publishes,
                ~publishes | (rng.random(len(rows)) < 0.8),
                np.ones(len(rows)),
            ),
            client_server_ms=rng.uniform(0, 2, (clients, servers)) if seed % 2 else None,
        )
    )


def brute_force_ms(problem: ConnectionsProblem) -> float:
    network = problem.network
    return min(
        evaluate_connections(problem, np.array(homes, dtype=np.int32)).y_ms
        for homes in itertools.product(range(network.server_count), repeat=network.client_count)
    )


def test_the_bound_stays_below_the_optimum_and_above_the_nearest_legs() -> None:
    better = 0
    for seed in range(60):
        problem = tight_problem(seed, clients=5)
        optimum = brute_force_ms(problem)
        legs = problem.network.leg_matrix_ms().min(axis=1)
        for near_servers in (1, 2, 24):
            bound = bound_connections(
                problem, ConnectionsBoundParams(60, near_servers=near_servers)
            )
            assert bound.nearest_ms <= bound.y_ms <= optimum
            assert bound.nearest_ms == pytest.approx(problem.client_weight @ legs)
        better += bound.y_ms > bound.nearest_ms * (1 + 1e-6)
    assert better >= 20


def test_storage_that_holds_nothing_makes_the_cloud_part_of_the_bound() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(0.07), 0))
    problem.storage[:] = 0.0
    bound = bound_connections(problem)
    nothing_local = bound.nearest_ms + problem.client_weight.sum() * problem.network.cloud_ms
    assert bound.y_ms <= nothing_local * (1 + 1e-12)
    assert bound.y_ms > 5 * bound.nearest_ms


def test_a_plan_at_the_bound_ends_the_work() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(0.07), 0))
    homes = problem.network.nearest_servers(1)[1][:, 0]
    bound = bound_connections(problem, upper_cost=evaluate_connections(problem, homes).y_ms)
    assert bound.sweeps == 0
    assert bound.y_ms == bound.nearest_ms


def test_the_gap_of_the_search_is_small_where_storage_suffices() -> None:
    for ratio, most in ((0.52, 0.01), (0.81, 0.03)):
        problem = connections_problem(generate_reloc2020(Reloc2020(ratio), 0))
        found = search_connections(problem, ConnectionsSearchParams(0, iterations=500_000))
        bound = bound_connections(problem, ConnectionsBoundParams(sweeps=40), upper_cost=found.cost)
        assert bound.y_ms <= found.cost
        assert found.cost / bound.y_ms - 1 < most


def test_progress_tells_a_bound_that_never_falls() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(0.95), 0))
    seen: list[Progress] = []
    bound = bound_connections(problem, ConnectionsBoundParams(sweeps=5), on_progress=seen.append)
    values = [progress.bound or 0.0 for progress in seen]
    assert len(values) == bound.sweeps == 5
    assert values == sorted(values)
    assert values[-1] == bound.y_ms


def test_clients_without_weight_are_bounded_by_nothing() -> None:
    problem = tight_problem(0)
    problem.client_weight[:] = 0.0
    assert bound_connections(problem).y_ms == 0.0

"""The M1 search against the cost model, brute force and its own promises."""

from __future__ import annotations

import itertools
from dataclasses import replace

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
from nearcast.errors import ConfigError
from nearcast.planning.connections.search import (
    ConnectionsSearchParams,
    _field_of,
    search_connections,
)
from nearcast.planning.connections.search_kernels import (
    _apply,
    _move_ms,
    load_of,
    sum_ms,
)
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch


def small_problem(seed: int, clients: int, servers: int, topics: int) -> ConnectionsProblem:
    """Uneven servers, publish-only and subscribe-only members, half the seeds measured."""
    rng = np.random.default_rng(seed)
    rows = [
        (topic, client)
        for topic in range(topics)
        for client in sorted(rng.choice(clients, rng.integers(1, clients + 1), replace=False))
    ]
    topic, client = np.array(rows, dtype=np.int32).T.copy()
    publishes = rng.random(len(rows)) < 0.7
    measured = rng.uniform(0, 3, (clients, servers)) if seed % 2 else None
    return connections_problem(
        Scenario(
            ScenarioSettings("small", 10.0, 10.0, ms_per_km=0.1, cloud_ms=rng.uniform(0.5, 5)),
            Servers(
                pa.array(range(servers)),
                rng.uniform(0, 10, servers),
                rng.uniform(0, 10, servers),
                storage=np.where(rng.random(servers) < 0.1, np.inf, rng.uniform(0, 4, servers)),
                compute=np.full(servers, np.inf),
                client_limit=np.where(
                    rng.random(servers) < 0.3, np.inf, rng.integers(0, 4, servers)
                ),
                net_id=pa.array(["net0"] * servers),
            ),
            Clients(
                pa.array(range(clients)), rng.uniform(0, 10, clients), rng.uniform(0, 10, clients)
            ),
            Topics(
                pa.array(range(topics)),
                rng.uniform(0.1, 3, topics),
                np.full(topics, np.inf),
                np.zeros(topics),
            ),
            Members(
                topic,
                client,
                publishes,
                ~publishes | (rng.random(len(rows)) < 0.5),
                np.ones(len(rows)),
            ),
            client_server_ms=measured,
        )
    )


@pytest.mark.parametrize("seed", range(10))
def test_moves_change_the_cost_as_the_model_says(seed: int) -> None:
    problem = small_problem(seed, clients=12, servers=5, topics=8)
    rng = np.random.default_rng(seed)
    field = _field_of(problem)
    homes = rng.integers(0, 5, 12).astype(np.int32)
    load = load_of(field, homes)
    for _ in range(100):
        before = evaluate_connections(problem, load.homes).y_ms
        assert sum_ms(field, load) == pytest.approx(before, rel=1e-9, abs=1e-12)
        client, to = int(rng.integers(12)), int(rng.integers(5))
        if to == load.homes[client]:
            continue
        limit = float(rng.choice([np.inf, 0.0]))
        said = _move_ms(field, load, client, to, limit)
        _apply(field, load, client, to)
        change = evaluate_connections(problem, load.homes).y_ms - before
        if said <= limit:
            assert said == pytest.approx(change, rel=1e-9, abs=1e-12)
        else:
            assert limit < said <= change + 1e-12


def brute_force_ms(problem: ConnectionsProblem) -> float:
    network = problem.network
    return min(
        evaluate_connections(problem, np.array(homes, dtype=np.int32)).y_ms
        for homes in itertools.product(range(network.server_count), repeat=network.client_count)
    )


def test_the_optimum_of_small_instances_is_found() -> None:
    for seed in range(12):
        problem = small_problem(seed, clients=5, servers=3, topics=4)
        found = search_connections(problem, ConnectionsSearchParams(seed, iterations=100_000))
        assert found.cost == pytest.approx(brute_force_ms(problem), rel=1e-9, abs=1e-12)


def test_the_cost_is_that_of_the_homes_and_better_than_nearest() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(1.28), 0))
    found = search_connections(problem, ConnectionsSearchParams(0, iterations=200_000))
    nearest = evaluate_connections(problem, problem.network.nearest_servers(1)[1][:, 0]).y_ms
    assert found.cost == evaluate_connections(problem, found.homes).y_ms
    assert found.cost < 0.5 * nearest
    assert found.iterations == 200_000
    assert found.moves > 0


def test_a_start_is_never_made_worse() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(0.95), 1))
    good = search_connections(problem, ConnectionsSearchParams(0, iterations=300_000))
    again = search_connections(
        problem, ConnectionsSearchParams(1, iterations=1), start_homes=good.homes
    )
    assert again.cost <= good.cost


def test_the_same_seed_gives_the_same_homes_and_another_seed_others() -> None:
    problem = connections_problem(generate_reloc2020(Reloc2020(0.95), 2))
    one, two, other = (
        search_connections(problem, ConnectionsSearchParams(seed, iterations=50_000)).homes
        for seed in (3, 3, 4)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


class TickingWatch(Stopwatch):
    """A clock that goes on by five milliseconds whenever somebody looks at it."""

    looks = 0

    def seconds(self) -> float:
        self.looks += 1
        return 0.005 * self.looks


def test_a_time_limit_ends_the_search_and_progress_reaches_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearcast.planning.connections.search.Stopwatch", TickingWatch)
    problem = connections_problem(generate_reloc2020(Reloc2020(0.07), 0))
    seen: list[Progress] = []
    found = search_connections(
        problem, ConnectionsSearchParams(0, time_limit_s=0.25), on_progress=seen.append
    )
    assert found.iterations > 0
    assert 0.2 < found.seconds < 0.3
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert all(progress.stage == "search" for progress in seen)


def test_one_server_or_no_weight_leaves_the_nearest_homes() -> None:
    alone = small_problem(0, clients=4, servers=1, topics=2)
    assert search_connections(alone, ConnectionsSearchParams()).homes.tolist() == [0, 0, 0, 0]
    weightless = replace(alone, client_weight=np.zeros(4))
    assert search_connections(weightless, ConnectionsSearchParams()).cost == 0.0


def test_limits_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ConfigError, match="iterations"):
        ConnectionsSearchParams(iterations=0)
    with pytest.raises(ConfigError, match="time limit"):
        ConnectionsSearchParams(time_limit_s=0.0)

"""The search's sums and the price of every kind of move, against full evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.scenario import (
    Clients,
    IndexArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.planning.ratio.workspace import Workspace, workspace_of


def random_problem(seed: int, *, measured: bool) -> RatioProblem:
    """A small, tight scenario with publish-only, subscribe-only and idle members."""
    rng = np.random.default_rng(seed)
    servers, clients, topics = 6, 30, 7
    pairs = [(n, c) for n in range(topics) for c in range(clients) if rng.random() < 0.25]
    role = rng.integers(0, 8, len(pairs))
    delays = rng.uniform(0.1, 3.0, (servers, servers)) * (1 - np.eye(servers))
    scenario = Scenario(
        settings=ScenarioSettings("random", 25.0, 25.0),
        servers=Servers(
            ids=pa.array(range(servers)),
            x_km=rng.uniform(0, 25, servers),
            y_km=rng.uniform(0, 25, servers),
            storage=rng.uniform(5, 25, servers),
            compute=rng.uniform(20, 80, servers),
            client_limit=np.full(servers, np.inf),
            net_id=pa.array(["net0"] * servers),
        ),
        clients=Clients(
            pa.array(range(clients)), rng.uniform(0, 25, clients), rng.uniform(0, 25, clients)
        ),
        topics=Topics(
            ids=pa.array(range(topics)),
            spool=rng.uniform(1, 9, topics),
            permissible_ms=np.full(topics, np.inf),
            process_ms=np.zeros(topics),
        ),
        members=Members(
            topic=np.array([n for n, _ in pairs], dtype=np.int32),
            client=np.array([c for _, c in pairs], dtype=np.int32),
            publishes=np.isin(role, [0, 3, 4, 5, 6]),
            subscribes=np.isin(role, [1, 3, 4, 5, 6]),
            rate_hz=np.ones(len(pairs)),
        ),
        client_server_ms=rng.uniform(0.1, 3.0, (clients, servers)) if measured else None,
        server_server_ms=delays if measured else None,
    )
    return ratio_problem(scenario)


def random_homes(problem: RatioProblem, rng: np.random.Generator) -> IndexArray:
    network = problem.network
    return rng.integers(0, network.server_count, network.client_count).astype(np.int32)


def spools_of(problem: RatioProblem, homes: IndexArray) -> set[tuple[int, int]]:
    rows = np.flatnonzero(problem.publishes)
    servers = homes[problem.member_client[rows]]
    return set(zip(problem.member_topic[rows].tolist(), servers.tolist(), strict=True))


def full_cost(
    problem: RatioProblem, homes: IndexArray, kept: IndexArray | None, price_ms: float
) -> float:
    cost = evaluate_ratio(problem, homes).y_ms * problem.deliveries
    if kept is None:
        return cost
    return cost + price_ms * len(spools_of(problem, homes) - spools_of(problem, kept))


def sums_of(workspace: Workspace) -> list[np.ndarray]:
    state = workspace.state
    return [
        state.storage_used.copy(),
        state.compute_used.copy(),
        state.deliveries.copy(),
        state.between_ms.copy(),
        state.local_share.copy(),
    ]


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_loaded_plan_costs_what_the_model_says(seed: int, measured: bool) -> None:
    problem = random_problem(seed, measured=measured)
    rng = np.random.default_rng(seed)
    kept, homes = random_homes(problem, rng), random_homes(problem, rng)
    workspace = workspace_of(problem, kept, 0.7)
    assert workspace.set_homes(homes) == pytest.approx(
        full_cost(problem, homes, kept, 0.7), abs=1e-9
    )
    assert np.array_equal(workspace.homes(), homes)
    cost = evaluate_ratio(problem, homes)
    expected = [
        cost.storage_used,
        cost.compute_used,
        cost.deliveries,
        cost.between_ms,
        cost.local_share,
    ]
    for found, wanted in zip(sums_of(workspace), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("legs", ["measured", "matrix", "coordinates"])
@pytest.mark.parametrize("seed", range(4))
def test_a_clients_move_costs_the_difference_of_two_full_evaluations(seed: int, legs: str) -> None:
    from nearcast.planning.ratio.move_kernels import apply_move, move_delta

    problem = random_problem(seed, measured=legs == "measured")
    rng = np.random.default_rng(seed)
    kept = random_homes(problem, rng)
    workspace = workspace_of(problem, kept, 0.7)
    if legs == "coordinates":
        # What the search does when the matrix of legs would be too large.
        state = workspace.state._replace(leg_ms=np.empty((0, 0)))
        workspace = replace(workspace, state=state)
    before = workspace.set_homes(random_homes(problem, rng))
    for _ in range(60):
        client, server = int(rng.integers(30)), int(rng.integers(6))
        if workspace.state.homes[client] == server:
            continue
        delta = move_delta(workspace.state, client, server)
        apply_move(workspace.state, client, server)
        after = full_cost(problem, workspace.homes(), kept, 0.7)
        assert delta == pytest.approx(after - before, abs=1e-8)
        before = after
    kept_up = sums_of(workspace)
    workspace.rebuild()
    for found, wanted in zip(kept_up, sums_of(workspace), strict=True):
        assert found == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("limit", [-np.inf, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_group_moves_and_swaps_report_their_cost_or_leave_everything_as_it_was(
    seed: int, limit: float
) -> None:
    from nearcast.planning.ratio.anneal_kernels import try_group, try_swap

    problem = random_problem(seed, measured=True)
    rng = np.random.default_rng(seed)
    workspace = workspace_of(problem)
    before = workspace.set_homes(random_homes(problem, rng))
    state = workspace.state
    tried = 0
    for _ in range(40):
        old = state.homes.copy()
        client, other = rng.integers(30, size=2)
        a, b = int(state.homes[client]), int(state.homes[other])
        if a == b or state.client_start[client] == state.client_start[client + 1]:
            continue
        tried += 1
        wanted = old.copy()
        if rng.random() < 0.5:
            topic = int(state.row_topic[state.client_start[client]])
            delta = try_group(state, topic, a, b, limit)
            members = state.topic_client[state.topic_start[topic] : state.topic_start[topic + 1]]
            wanted[members[old[members] == a]] = b
        else:
            delta = try_swap(state, client, other, limit)
            wanted[client], wanted[other] = b, a
        assert np.array_equal(state.homes, wanted if limit > 0 else old)
        after = full_cost(problem, workspace.homes(), None, 0.0)
        assert delta == pytest.approx(after - before, abs=1e-8)
        before = after
    assert tried > 10
    kept_up = sums_of(workspace)
    workspace.rebuild()
    for found, exact in zip(kept_up, sums_of(workspace), strict=True):
        assert found == pytest.approx(exact, abs=1e-9)


def test_annealing_and_descent_report_the_change_of_the_cost() -> None:
    from nearcast.planning.ratio.anneal_kernels import anneal, descend
    from nearcast.planning.ratio.search import random_state

    problem = random_problem(3, measured=True)
    workspace = workspace_of(problem)
    before = workspace.set_homes(random_homes(problem, np.random.default_rng(3)))
    state = workspace.state
    members = np.flatnonzero(np.diff(state.client_start)).astype(np.int32)
    change, moves = anneal(state, random_state(1), members, 200, 5.0, 0.1, 0.2, 0.3)
    after = full_cost(problem, workspace.homes(), None, 0.0)
    assert moves > 100
    assert change == pytest.approx(after - before, abs=1e-7)
    while (gain := descend(state)) < 0:
        before, after = after, full_cost(problem, workspace.homes(), None, 0.0)
        assert gain == pytest.approx(after - before, abs=1e-8)

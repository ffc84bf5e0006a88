"""The bound of M2 lies below every plan and above the trivial limits."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.planning.ratio.bound import BoundParams, bound_ratio
from nearcast.planning.ratio.bound_relaxation import relax
from nearcast.planning.request import Progress


def tiny_problem(seed: int) -> RatioProblem:
    """Return 2-3 servers, 5-7 clients, 2-3 topics; tightness, roles and delays by the seed."""
    rng = np.random.default_rng(seed)
    servers, clients, topics = rng.integers(2, 4), rng.integers(5, 8), rng.integers(2, 4)
    rows = [
        (topic, client)
        for topic in range(topics)
        for client in sorted(rng.permutation(clients)[: rng.integers(3, clients + 1)])
    ]
    topic, client = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    both = rng.random() < 0.4
    publishes = both | (rng.random(len(rows)) < 0.7)
    subscribes = ~publishes | (rng.random(len(rows)) < 0.6) | both
    spool = rng.uniform(1, 8, topics)
    total = float(np.sum(spool[topic] * publishes))
    tightness = rng.choice([0.2, 0.6, 1.0, 4.0])
    measured = rng.random() < 0.5
    server_server = rng.uniform(0.1, 3, (servers, servers)) * (1 - np.eye(int(servers)))
    return ratio_problem(
        Scenario(
            settings=ScenarioSettings(
                "tiny", 10, 10, ms_per_km=0.2, cloud_ms=float(rng.uniform(0.5, 4))
            ),
            servers=Servers(
                ids=pa.array(range(servers)),
                x_km=rng.uniform(0, 10, servers),
                y_km=rng.uniform(0, 10, servers),
                storage=rng.uniform(0.5, 1.5, servers) * tightness * spool.sum() / servers,
                compute=rng.uniform(0.5, 1.5, servers) * tightness * total / servers,
                client_limit=np.full(servers, np.inf),
                net_id=pa.array(["net0"] * servers),
            ),
            clients=Clients(
                ids=pa.array(range(clients)),
                x_km=rng.uniform(0, 10, clients),
                y_km=rng.uniform(0, 10, clients),
            ),
            topics=Topics(
                ids=pa.array(range(topics)),
                spool=spool,
                permissible_ms=np.full(topics, np.inf),
                process_ms=np.zeros(topics),
            ),
            members=Members(topic, client, publishes, subscribes, np.ones(len(rows))),
            client_server_ms=rng.uniform(0, 3, (clients, servers)) if measured else None,
            server_server_ms=server_server if measured else None,
        )
    )


def best_y_ms(problem: RatioProblem) -> float:
    """Return the least Y over all homes: eqs. (1), (2), (6) and (7), all plans side by side."""
    network = problem.network
    plans = itertools.product(range(network.server_count), repeat=network.client_count)
    homes = np.array(list(plans))
    home = homes[:, problem.member_client]
    rows = range(len(problem.member_client))
    storage = np.zeros((len(homes), network.server_count))
    compute = storage.copy()
    for server in range(network.server_count):
        for topic, spool in enumerate(problem.spool):
            of_topic = problem.publishes & (problem.member_topic == topic)
            here = np.sum((home == server) & of_topic, axis=1)
            compute[:, server] += here * spool
            storage[:, server] += (here > 0) * spool
    with np.errstate(divide="ignore"):
        theta = np.minimum(np.minimum(problem.storage / storage, problem.compute / compute), 1.0)
    legs = network.leg_matrix_ms()
    total, deliveries = np.zeros(len(homes)), 0
    for m in rows:
        others = [
            k
            for k in rows
            if problem.subscribes[k]
            and k != m
            and problem.member_topic[k] == problem.member_topic[m]
        ]
        if not problem.publishes[m] or not others:
            continue
        deliveries += 1
        share = theta[np.arange(len(homes)), home[:, m]]
        total += legs[problem.member_client[m], home[:, m]] + 2 * network.cloud_ms * (1 - share)
        for k in others:
            middle = share * network.server_server_ms[home[:, m], home[:, k]]
            total += (middle + legs[problem.member_client[k], home[:, k]]) / len(others)
    return float(total.min()) / max(deliveries, 1)


def leg_bound_ms(problem: RatioProblem) -> float:
    legs = problem.network.leg_matrix_ms().min(axis=1)
    return float(problem.leg_weight @ legs) / max(problem.deliveries, 1)


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_the_bound_never_exceeds_the_optimum_of_tiny_problems(first: int) -> None:
    for seed in range(first, first + 10):
        problem = tiny_problem(seed)
        optimum = best_y_ms(problem)
        for near_servers, memory_bytes in (
            (16, 10**9),
            (1, 10**9),
            (16, 1_000),
            (16, 200),
            (16, 0),
        ):
            params = BoundParams(25, near_servers=near_servers, memory_bytes=memory_bytes)
            bound = bound_ratio(problem, params).value_ms
            assert bound <= optimum + 1e-9, (seed, params)
            assert bound >= leg_bound_ms(problem) * (1 - 1e-6), (seed, params)


def test_the_bound_is_close_to_the_optimum_where_limits_are_loose() -> None:
    gaps = []
    for seed in range(60):
        problem = tiny_problem(seed)
        if np.all(problem.compute > 2 * problem.spool.sum()):
            optimum = best_y_ms(problem)
            gaps.append(
                1 - bound_ratio(problem, BoundParams(sweeps=60), optimum).value_ms / optimum
            )
    assert len(gaps) >= 5
    assert np.median(gaps) < 0.02


@pytest.mark.parametrize(
    ("sigma_km", "spool_per_member"), [(1.0, 2.0), (10.0, 2.0), (5.0, 4.0), (5.0, 8.0)]
)
def test_no_plan_of_paper_size_lies_below_the_bound(
    sigma_km: float, spool_per_member: float
) -> None:
    scenario = generate_reloc2021(Reloc2021(sigma_km, spool_per_member), 3)
    problem = ratio_problem(scenario)
    bound = bound_ratio(problem, BoundParams(sweeps=15)).value_ms
    rng = np.random.default_rng(0)
    delay, nearest = problem.network.nearest_servers(4)
    plans = [nearest[:, 0], nearest[:, 1]]
    plans += [rng.integers(0, 16, len(delay)).astype(np.int32) for _ in range(3)]
    assert all(evaluate_ratio(problem, homes).y_ms >= bound for homes in plans)
    assert bound > leg_bound_ms(problem)


def test_fewer_labels_and_pairs_only_weaken_the_bound() -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(sigma_km=5.0), 1))
    full = bound_ratio(problem, BoundParams(sweeps=40)).value_ms
    small = bound_ratio(problem, BoundParams(sweeps=40, near_servers=6)).value_ms
    less = bound_ratio(problem, BoundParams(sweeps=40, memory_bytes=1_000_000)).value_ms
    least = bound_ratio(problem, BoundParams(sweeps=40, memory_bytes=100_000)).value_ms
    assert leg_bound_ms(problem) <= least < min(less, small)
    assert max(less, small) <= full * (1 + 1e-3)


@pytest.mark.parametrize("memory_bytes", [10**9, 10**6, 10**5, 10**4, 0])
@pytest.mark.parametrize("near_servers", [40, 8, 1])
def test_messages_and_shares_never_take_more_than_they_may(
    near_servers: int, memory_bytes: int
) -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(sigma_km=5.0), 1))
    relaxation = relax(problem, near_servers, memory_bytes)
    assert relaxation.message.nbytes + relaxation.spool_share.nbytes <= memory_bytes
    relaxation.sweep()
    assert relaxation.proven_value() > 0


def test_the_same_sweeps_give_the_same_bound() -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(sigma_km=10.0), 2))
    first, second = (bound_ratio(problem, BoundParams(sweeps=10), 1.45) for _ in range(2))
    assert first.value_ms == second.value_ms
    assert first.sweeps == 10


def test_more_sweeps_tighten_the_bound_and_report_progress() -> None:
    problem = ratio_problem(generate_reloc2021(Reloc2021(sigma_km=10.0), 2))
    seen: list[Progress] = []
    short = bound_ratio(problem, BoundParams(sweeps=2), 1.45).value_ms
    long = bound_ratio(problem, BoundParams(sweeps=40), 1.45, seen.append).value_ms
    assert long > short
    assert {progress.stage for progress in seen} == {"bound"}
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert 0.8 < fractions[-1] <= 1.0


def test_a_problem_without_deliveries_has_the_bound_zero() -> None:
    problem = tiny_problem(0)
    lonely = Members(
        np.array([0, 1], dtype=np.int32),
        np.array([0, 1], dtype=np.int32),
        np.array([True, True]),
        np.array([True, True]),
        np.ones(2),
    )
    clients = Clients(pa.array([0, 1]), np.zeros(2), np.ones(2))
    servers = Servers(
        pa.array([0]), np.zeros(1), np.zeros(1), np.ones(1), np.ones(1), np.ones(1), pa.array(["n"])
    )
    topics = Topics(pa.array([0, 1]), np.ones(2), np.full(2, np.inf), np.zeros(2))
    empty = ratio_problem(
        Scenario(ScenarioSettings("lonely", 1, 1), servers, clients, topics, lonely)
    )
    assert problem.deliveries > 0
    assert bound_ratio(empty).value_ms == 0.0

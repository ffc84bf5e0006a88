"""Pair delays equal plain loops, and their weighted mean is the model's own value."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from nearcast.delay.connections import connections_problem, evaluate_connections
from nearcast.delay.pair_delays import choose_pairs, pair_delays_ms, pair_distance_km
from nearcast.delay.placement import broker_matrix, evaluate_placement, placement_problem
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Brokers, Model, Plan
from nearcast.domain.scenario import Scenario


def mixed_scenario(seed: int) -> Scenario:
    """Return a small scenario with publish-only, subscribe-only and lonely members."""
    scenario = generate_reloc2021(
        Reloc2021(topics=6, overlap=0.4, servers_per_side=2, storage=40, compute=300), seed
    )
    rng = np.random.default_rng(seed)
    publishes = rng.random(len(scenario.members)) < 0.6
    subscribes = rng.random(len(scenario.members)) < 0.5
    last = scenario.members.topic == 5
    publishes[last] = True
    subscribes[last] = False
    return dataclasses.replace(
        scenario,
        settings=dataclasses.replace(scenario.settings, beta_ms=0.25),
        servers=dataclasses.replace(scenario.servers, client_limit=np.array([5.0, 9, 20, np.inf])),
        topics=dataclasses.replace(scenario.topics, process_ms=rng.random(6)),
        members=dataclasses.replace(scenario.members, publishes=publishes, subscribes=subscribes),
    )


def random_plan(scenario: Scenario, seed: int) -> Plan:
    rng = np.random.default_rng(seed)
    servers, topics = len(scenario.servers), len(scenario.topics)
    publish = rng.integers(servers, size=len(scenario.members)).astype(np.int32)
    placed = rng.random((topics, servers)) < 0.5
    topic, server = (axis.astype(np.int32).ravel() for axis in np.indices(placed.shape))
    return Plan(
        homes=rng.integers(servers, size=len(scenario.clients)).astype(np.int32),
        publish=np.where(scenario.members.publishes, publish, np.int32(-1)).astype(np.int32),
        brokers=Brokers(topic, server, placed.ravel(), np.ones(len(topic))),
    )


def looped_delays(scenario: Scenario, plan: Plan, model: Model) -> dict[tuple[int, int], float]:
    """Return the delay by (publisher row, subscriber row), from the formulas, one by one."""
    members, servers, clients = scenario.members, scenario.servers, scenario.clients
    gamma, cloud = scenario.settings.ms_per_km, scenario.settings.cloud_ms

    def leg(client: int, server: int) -> float:
        return gamma * math.hypot(
            clients.x_km[client] - servers.x_km[server],
            clients.y_km[client] - servers.y_km[server],
        )

    def between(a: int, b: int) -> float:
        return gamma * math.hypot(
            servers.x_km[a] - servers.x_km[b], servers.y_km[a] - servers.y_km[b]
        )

    managed: list[dict[int, int]] = [{} for _ in range(len(servers))]
    for row in np.flatnonzero(members.publishes):
        topics = managed[plan.homes[members.client[row]]]
        topics[int(members.topic[row])] = topics.get(int(members.topic[row]), 0) + 1
    storage = [sum(scenario.topics.spool[n] for n in topics) for topics in managed]
    compute = [sum(scenario.topics.spool[n] * k for n, k in topics.items()) for topics in managed]
    crowd = [int(np.sum(plan.homes == server)) for server in range(len(servers))]
    placed = {
        (n, server)
        for n, server, edge in zip(
            plan.brokers.topic, plan.brokers.server, plan.brokers.on_edge, strict=True
        )
        if edge
    }

    def connection_cost(client: int) -> float:
        at = plan.homes[client]
        share = max(0.0, 1 - servers.storage[at] / storage[at]) if storage[at] else 0.0
        excess = max(0.0, crowd[at] - servers.client_limit[at])
        return float(scenario.settings.beta_ms * excess + leg(client, at) + share * cloud)

    def delay(left: int, right: int) -> float:
        publisher, subscriber = members.client[left], members.client[right]
        source, target = plan.homes[publisher], plan.homes[subscriber]
        if model is Model.CONNECTIONS:
            return connection_cost(publisher) + connection_cost(subscriber)
        if model is Model.PLACEMENT:
            source, topic = plan.publish[left], members.topic[left]
            middle = between(source, target) if (topic, source) in placed else 2 * cloud
            middle += scenario.topics.process_ms[topic]
        else:
            theta = min(
                servers.storage[source] / storage[source],
                servers.compute[source] / compute[source],
                1.0,
            )
            middle = 2 * cloud * (1 - theta) + theta * between(source, target)
        return float(leg(publisher, source) + middle + leg(subscriber, target))

    return {
        (left, right): delay(left, right)
        for left in range(len(members))
        for right in range(len(members))
        if left != right
        and members.topic[left] == members.topic[right]
        and members.publishes[left]
        and members.subscribes[right]
    }


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("seed", range(3))
def test_every_pair_appears_once_with_the_delay_of_the_formula(model: Model, seed: int) -> None:
    scenario = mixed_scenario(seed)
    plan = random_plan(scenario, seed)
    pairs = choose_pairs(scenario, model, np.random.default_rng(0))
    delays = pair_delays_ms(scenario, plan, model, pairs)
    expected = looped_delays(scenario, plan, model)
    rows = zip(pairs.publisher_row.tolist(), pairs.subscriber_row.tolist(), strict=True)
    found = dict(zip(rows, delays.tolist(), strict=True))
    assert len(found) == len(pairs) == pairs.total == len(expected) > 100
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_weighted_mean_is_the_value_of_the_model(seed: int) -> None:
    scenario = mixed_scenario(seed)
    plan = random_plan(scenario, seed)
    placement = placement_problem(scenario)
    edge = plan.brokers.on_edge
    brokers = broker_matrix(placement, plan.brokers.topic[edge], plan.brokers.server[edge])
    placed = evaluate_placement(placement, plan.homes, plan.publish, brokers)
    values = {
        Model.RATIO: evaluate_ratio(ratio_problem(scenario), plan.homes).y_ms,
        Model.CONNECTIONS: evaluate_connections(connections_problem(scenario), plan.homes).y_ms,
        Model.PLACEMENT: placed.d1_ms / placed.pairs,
    }
    for model, value in values.items():
        pairs = choose_pairs(scenario, model, np.random.default_rng(0))
        delays = pair_delays_ms(scenario, plan, model, pairs)
        assert pairs.weight.sum() == pytest.approx(1.0)
        assert pairs.weight @ delays == pytest.approx(value)


@pytest.mark.parametrize("model", list(Model))
def test_a_sample_is_seeded_valid_and_close_to_the_whole(model: Model) -> None:
    scenario = mixed_scenario(1)
    plan = random_plan(scenario, 1)
    every = choose_pairs(scenario, model, np.random.default_rng(0))
    sample = choose_pairs(scenario, model, np.random.default_rng(7), most=len(every) - 1)
    again = choose_pairs(scenario, model, np.random.default_rng(7), most=len(every) - 1)
    assert np.array_equal(sample.publisher_row, again.publisher_row)
    assert np.array_equal(sample.subscriber_row, again.subscriber_row)
    known = set(zip(every.publisher_row.tolist(), every.subscriber_row.tolist(), strict=True))
    drawn = zip(sample.publisher_row.tolist(), sample.subscriber_row.tolist(), strict=True)
    assert known.issuperset(drawn)
    assert (len(sample), sample.total) == (len(every) - 1, len(every))
    delays = pair_delays_ms(scenario, plan, model, sample)
    mean = float(every.weight @ pair_delays_ms(scenario, plan, model, every))
    five_standard_errors = 5 * float(delays.std()) / math.sqrt(len(sample))
    assert sample.weight @ delays == pytest.approx(mean, abs=five_standard_errors)


def test_the_distance_of_a_pair_is_that_of_its_clients() -> None:
    scenario = mixed_scenario(2)
    pairs = choose_pairs(scenario, Model.RATIO, np.random.default_rng(0))
    km = pair_distance_km(scenario, pairs)
    x, y, client = scenario.clients.x_km, scenario.clients.y_km, scenario.members.client
    for pair in (0, len(pairs) // 2, len(pairs) - 1):
        a, b = client[pairs.publisher_row[pair]], client[pairs.subscriber_row[pair]]
        assert km[pair] == pytest.approx(math.hypot(x[a] - x[b], y[a] - y[b]))


@pytest.mark.parametrize("model", list(Model))
def test_a_scenario_in_which_nobody_subscribes_has_no_pairs(model: Model) -> None:
    scenario = mixed_scenario(0)
    nobody = np.zeros(len(scenario.members), dtype=np.bool_)
    silent = dataclasses.replace(
        scenario, members=dataclasses.replace(scenario.members, subscribes=nobody)
    )
    pairs = choose_pairs(silent, model, np.random.default_rng(0))
    assert len(pairs) == pairs.total == 0
    assert len(pair_delays_ms(silent, random_plan(silent, 0), model, pairs)) == 0

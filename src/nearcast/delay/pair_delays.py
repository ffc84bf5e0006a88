"""The delay of every publisher/subscriber pair under a plan, or of a seeded sample of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.connections import connections_problem, evaluate_connections
from nearcast.delay.network import network_of
from nearcast.delay.placement import broker_matrix, pair_delay_ms, placement_problem
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray, Scenario
from nearcast.geo.distance import distance_km

__all__ = ["MOST_PAIRS", "Pairs", "choose_pairs", "pair_delays_ms", "pair_distance_km"]

MOST_PAIRS = 200_000
"""Pairs that are enough for a picture of a distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of a publisher and another client that subscribes to the same topic."""

    publisher_row: OffsetArray
    """Member row of the publisher [pair]."""
    subscriber_row: OffsetArray
    """Member row of the subscriber [pair]."""
    weight: FloatArray
    """Part of the model's mean that the pair stands for; sums to 1."""
    total: int
    """Number of pairs in the scenario; more than `len` when these are a sample."""

    def __len__(self) -> int:
        return len(self.weight)


def choose_pairs(
    scenario: Scenario, model: Model, rng: np.random.Generator, most: int = MOST_PAIRS
) -> Pairs:
    """Return all pairs, or `most` drawn ones (with replacement) when there are more.

    The weights are those of the model's mean, so that the weighted mean of `pair_delays_ms` is
    Y for the ratio and connections models and D1 / pairs for the placement model. A sample is
    drawn in proportion to them and has equal weights.
    """
    members, topics = scenario.members, len(scenario.topics)
    subscriber_rows = np.flatnonzero(members.subscribes)
    first = np.searchsorted(members.topic[subscriber_rows], np.arange(topics + 1))
    receivers_of = np.diff(first)[members.topic] - members.subscribes
    publisher_rows = np.flatnonzero(members.publishes & (receivers_of > 0))
    topic, receivers = members.topic[publisher_rows], receivers_of[publisher_rows]
    share = _delivery_share(model, topic, receivers)
    total = int(receivers.sum())
    if total <= most:
        index = np.repeat(np.arange(len(receivers)), receivers)
        offset = np.arange(total) - np.repeat(np.cumsum(receivers) - receivers, receivers)
        weight = (share / receivers)[index]
    else:
        index = rng.choice(len(share), most, p=share)
        offset = rng.integers(receivers[index])
        weight = np.full(most, 1.0 / most)
    publisher_row = publisher_rows[index]
    position = first[topic[index]] + offset
    # A publisher that also subscribes is left out: those behind it move up by one.
    own = np.searchsorted(subscriber_rows, publisher_row)
    position += members.subscribes[publisher_row] & (position >= own)
    return Pairs(publisher_row, subscriber_rows[position], weight, total)


def _delivery_share(model: Model, topic: IndexArray, receivers: OffsetArray) -> FloatArray:
    """Return what each delivery weighs in the model's mean [delivery]; sums to 1."""
    if model is Model.PLACEMENT:
        share = receivers.astype(np.float64)
    elif model is Model.CONNECTIONS:
        share = 1.0 / np.bincount(topic)[topic]
    else:
        share = np.ones(len(topic))
    return share / share.sum() if len(share) else share


def pair_delays_ms(scenario: Scenario, plan: Plan, model: Model, pairs: Pairs) -> FloatArray:
    """Return the delay of each pair under a plan.

    Ratio (2021, eq. 6): the mean over local and delegated processing. Connections (2020,
    eq. 5): the costs of both clients. Placement (2022, eq. 11).
    """
    homes = plan.homes
    publisher = scenario.members.client[pairs.publisher_row]
    subscriber = scenario.members.client[pairs.subscriber_row]
    if model is Model.PLACEMENT:
        problem = placement_problem(scenario)
        on_edge = plan.brokers.on_edge
        brokers = broker_matrix(problem, plan.brokers.topic[on_edge], plan.brokers.server[on_edge])
        return pair_delay_ms(
            problem, homes, plan.publish, brokers, pairs.publisher_row, pairs.subscriber_row
        )
    network = network_of(scenario)
    source, target = homes[publisher], homes[subscriber]
    legs = network.legs_ms(publisher, source) + network.legs_ms(subscriber, target)
    if model is Model.CONNECTIONS:
        connections = connections_problem(scenario)
        cost = evaluate_connections(connections, homes)
        excess = np.maximum(cost.clients - connections.client_limit, 0.0)
        server_ms = connections.beta_ms * excess + cost.delegated_share * network.cloud_ms
        return legs + server_ms[source] + server_ms[target]
    theta = evaluate_ratio(ratio_problem(scenario), homes).local_share[source]
    between = network.server_server_ms[source, target]
    return legs + 2 * network.cloud_ms * (1 - theta) + theta * between


def pair_distance_km(scenario: Scenario, pairs: Pairs) -> FloatArray:
    """Return how far the two clients of each pair are apart."""
    clients = scenario.clients
    publisher = scenario.members.client[pairs.publisher_row]
    subscriber = scenario.members.client[pairs.subscriber_row]
    return distance_km(
        clients.x_km[publisher],
        clients.y_km[publisher],
        clients.x_km[subscriber],
        clients.y_km[subscriber],
    )

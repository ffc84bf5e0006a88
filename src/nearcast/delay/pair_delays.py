"""The delay of every publisher/subscriber pair under a plan, or of a seeded sample of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.connections import (
    ConnectionsCost,
    connections_problem,
    evaluate_connections,
)
from nearcast.delay.pair_parts import delivery_share, pair_parts, receivers_of
from nearcast.delay.ratio import RatioCost, evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario
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
    receivers_by_row = receivers_of(scenario.members)
    publisher_rows = np.flatnonzero(receivers_by_row)
    topic, receivers = members.topic[publisher_rows], receivers_by_row[publisher_rows]
    share = delivery_share(scenario, model, receivers_by_row)[publisher_rows]
    share = share / share.sum() if len(share) else share
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


def pair_delays_ms(scenario: Scenario, plan: Plan, model: Model, pairs: Pairs) -> FloatArray:
    """Return the delay of each pair under a plan; see `pair_parts`."""
    cost: RatioCost | ConnectionsCost | None = None
    if model is Model.RATIO:
        cost = evaluate_ratio(ratio_problem(scenario), plan.homes)
    elif model is Model.CONNECTIONS:
        cost = evaluate_connections(connections_problem(scenario), plan.homes)
    parts = pair_parts(scenario, plan, cost)
    return parts.delays_ms(pairs.publisher_row, pairs.subscriber_row)


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

"""M3, the broker-placement model (2022, eqs. 1-12): a server per (publisher, topic)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nearcast.delay.network import Network, network_of
from nearcast.delay.pairs import member_pairs
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray, Scenario
from nearcast.geo.distance import distance_km

__all__ = [
    "PlacementCost",
    "PlacementProblem",
    "broker_matrix",
    "evaluate_placement",
    "pair_delay_ms",
    "pair_weight",
    "placement_problem",
]

_NEAR_KM = 0.1
"""Added to the distance in eq. (12), so that clients at one place do not weigh infinitely."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """The arrays of M3. Member rows are sorted by topic."""

    network: Network
    spool: FloatArray
    """A_n [topic]."""
    storage: FloatArray
    """v_l [server]."""
    permissible_ms: FloatArray
    """beta_n [topic]."""
    process_ms: FloatArray
    """f_n [topic]."""
    topic_start: OffsetArray
    member_topic: IndexArray
    member_client: IndexArray
    publishes: BoolArray
    subscribes: BoolArray

    @property
    def topic_count(self) -> int:
        """Number of topics."""
        return len(self.spool)

    def pairs(self) -> Iterator[tuple[OffsetArray, OffsetArray]]:
        """Return (publisher rows, subscriber rows) of all pairs of a topic's members, in blocks."""
        return member_pairs(self.member_topic, self.publishes, self.subscribes, self.topic_count)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementCost:
    """The value of a plan under M3."""

    d1_ms: float
    d2_ms: float
    d3_ms: float
    pairs: int
    storage_used: FloatArray
    """Spools of the brokers placed [server]."""

    def value(self, objective: Objective) -> float:
        """Return the value of one objective."""
        return {"d1": self.d1_ms, "d2": self.d2_ms, "d3": self.d3_ms}[objective.value]


def placement_problem(scenario: Scenario) -> PlacementProblem:
    """Return the arrays of M3 for a scenario."""
    members, topics = scenario.members, scenario.topics
    return PlacementProblem(
        network=network_of(scenario),
        spool=topics.spool,
        storage=scenario.servers.storage,
        permissible_ms=topics.permissible_ms,
        process_ms=topics.process_ms,
        topic_start=members.topic_start(len(topics)),
        member_topic=members.topic,
        member_client=members.client,
        publishes=members.publishes,
        subscribes=members.subscribes,
    )


def pair_weight(network: Network, publisher: IndexArray, subscriber: IndexArray) -> FloatArray:
    """Return alpha, eq. (12): near pairs weigh more."""
    km = distance_km(
        network.client_x_km[publisher],
        network.client_y_km[publisher],
        network.client_x_km[subscriber],
        network.client_y_km[subscriber],
    )
    return 1.0 / (km + _NEAR_KM)


def broker_matrix(problem: PlacementProblem, topic: IndexArray, server: IndexArray) -> BoolArray:
    """Return z [topic, server] from the rows of placed brokers."""
    z = np.zeros((problem.topic_count, problem.network.server_count), dtype=np.bool_)
    z[topic, server] = True
    return z


def pair_delay_ms(
    problem: PlacementProblem,
    homes: IndexArray,
    publish: IndexArray,
    brokers: BoolArray,
    left: OffsetArray,
    right: OffsetArray,
) -> FloatArray:
    """Return D of publisher rows `left` to subscriber rows `right`, eq. (11)."""
    network = problem.network
    topic, at = problem.member_topic[left], publish[left]
    publisher, subscriber = problem.member_client[left], problem.member_client[right]
    home = homes[subscriber]
    middle = np.where(brokers[topic, at], network.server_server_ms[at, home], 2 * network.cloud_ms)
    return (
        network.legs_ms(publisher, at)
        + problem.process_ms[topic]
        + middle
        + network.legs_ms(subscriber, home)
    )


def evaluate_placement(
    problem: PlacementProblem, homes: IndexArray, publish: IndexArray, brokers: BoolArray
) -> PlacementCost:
    """Return D1, D2 and D3 of a plan, eqs. (8)-(12), over all publisher/subscriber pairs."""
    d1 = d2 = d3 = 0.0
    count = 0
    for left, right in problem.pairs():
        delay = pair_delay_ms(problem, homes, publish, brokers, left, right)
        publisher, subscriber = problem.member_client[left], problem.member_client[right]
        d1 += float(delay.sum())
        d2 += float(pair_weight(problem.network, publisher, subscriber) @ delay)
        over = delay - problem.permissible_ms[problem.member_topic[left]]
        d3 += float(np.maximum(over, 0.0).sum())
        count += len(left)
    used = problem.spool @ brokers
    return PlacementCost(d1, d2, d3, count, used)

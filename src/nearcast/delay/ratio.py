"""M2, the delegation-ratio model (2021, eqs. 1-10): one home per client.

The sum of all delivery delays splits into parts that are cheap to keep up to date::

    I * Y = sum over clients of leg_weight * leg
          + sum over servers of [2 d^C deliveries_l (1 - theta_l) + theta_l between_l]

where a delivery is one message of one publisher to the topic's other subscribers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.network import Network, network_of
from nearcast.delay.slots import count_by_slot, pair_slots, sum_by
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray, Scenario

__all__ = [
    "RatioCost",
    "RatioProblem",
    "RatioTotals",
    "delivery_weights",
    "evaluate_ratio",
    "local_share",
    "ratio_cost",
    "ratio_problem",
    "ratio_totals",
]


@dataclass(frozen=True, slots=True, eq=False)
class RatioProblem:
    """The arrays of M2. Member rows are sorted by topic."""

    network: Network
    spool: FloatArray
    """u_n [topic]."""
    storage: FloatArray
    """A_l [server]."""
    compute: FloatArray
    """B_l [server]."""
    topic_start: OffsetArray
    member_topic: IndexArray
    member_client: IndexArray
    publishes: BoolArray
    subscribes: BoolArray
    publish_weight: FloatArray
    """1 / |S_i| of the member's delivery; 0 if it does not publish or nobody else subscribes."""
    client_start: OffsetArray
    client_member: OffsetArray
    """Member rows of client c: client_member[client_start[c]:client_start[c + 1]]."""
    leg_weight: FloatArray
    """How often a client's leg counts in I * Y [client]; 2 per topic when all do both."""
    deliveries: int
    """I, the number of deliveries."""

    @property
    def topic_count(self) -> int:
        """Number of topics."""
        return len(self.spool)


@dataclass(frozen=True, slots=True, eq=False)
class RatioCost:
    """The value of a plan under M2, whole and by server."""

    y_ms: float
    """Y, eq. (7): mean delay of a delivery."""
    y1_ms: float
    """Y1, eq. (8): the two client legs."""
    y2_ms: float
    """Y2, eq. (9): delegation and server to server."""
    storage_used: FloatArray
    compute_used: FloatArray
    """v_l, eq. (1)."""
    local_share: FloatArray
    """theta_l, eq. (2)."""
    deliveries: FloatArray
    """Deliveries whose publisher is at home here [server]."""
    between_ms: FloatArray
    """Sum over these deliveries of the mean server-to-server delay [server]."""


@dataclass(frozen=True, slots=True, eq=False)
class RatioTotals:
    """Sums over topics of what a plan uses and costs: those of two blocks of topics add up."""

    legs_ms: float
    """Sum over deliveries of the two client legs."""
    storage_used: FloatArray
    compute_used: FloatArray
    deliveries: FloatArray
    between_ms: FloatArray
    """All four [server], as in `RatioCost`."""


def delivery_weights(
    member_topic: IndexArray, publishes: BoolArray, subscribes: BoolArray, topic_count: int
) -> tuple[FloatArray, FloatArray]:
    """Return (publish weight, leg weight) per member row; see `RatioProblem`.

    A publisher's delivery goes to the topic's subscribers other than itself (S_i).
    """
    subscribers = sum_by(member_topic, subscribes, topic_count)[member_topic]
    receivers = subscribers - (publishes & subscribes)
    weight = np.where(publishes & (receivers > 0), 1.0 / np.maximum(receivers, 1), 0.0)
    # What a subscriber hears: the weights of all publishers of its topic but itself.
    heard = sum_by(member_topic, weight, topic_count)[member_topic] - weight
    return weight, np.where(weight > 0, 1.0, 0.0) + np.where(subscribes, heard, 0.0)


def ratio_problem(scenario: Scenario) -> RatioProblem:
    """Return the arrays of M2 for a scenario."""
    members, clients, topics = scenario.members, len(scenario.clients), len(scenario.topics)
    weight, leg = delivery_weights(members.topic, members.publishes, members.subscribes, topics)
    client_start, client_member = members.rows_by_client(clients)
    return RatioProblem(
        network=network_of(scenario),
        spool=scenario.topics.spool,
        storage=scenario.servers.storage,
        compute=scenario.servers.compute,
        topic_start=members.topic_start(topics),
        member_topic=members.topic,
        member_client=members.client,
        publishes=members.publishes,
        subscribes=members.subscribes,
        publish_weight=weight,
        client_start=client_start,
        client_member=client_member,
        leg_weight=sum_by(members.client, leg, clients),
        deliveries=int(np.count_nonzero(weight)),
    )


def local_share(
    storage_used: FloatArray, compute_used: FloatArray, storage: FloatArray, compute: FloatArray
) -> FloatArray:
    """Return theta_l, eq. (2); a resource that is not used does not limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        by_storage = np.where(storage_used > 0, storage / storage_used, 1.0)
        by_compute = np.where(compute_used > 0, compute / compute_used, 1.0)
    return np.minimum(np.minimum(by_storage, by_compute), 1.0)


def evaluate_ratio(problem: RatioProblem, homes: IndexArray) -> RatioCost:
    """Return the value of a plan, eqs. (1), (2) and (6)-(9).

    Deviation: the second factor 1/I printed in eqs. (8) and (9) is a slip and left out.
    """
    totals = ratio_totals(problem, homes)
    return ratio_cost(totals, problem.storage, problem.compute, problem.network.cloud_ms)


def ratio_totals(problem: RatioProblem, homes: IndexArray) -> RatioTotals:
    """Return the sums of a plan over the topics of a problem."""
    network, servers = problem.network, problem.network.server_count
    home = homes[problem.member_client]
    slots = count_by_slot(
        problem.member_topic,
        home,
        servers,
        publishers=problem.publishes,
        subscribers=problem.subscribes,
        weight=problem.publish_weight,
    )
    publishers, weight = slots.values["publishers"], slots.values["weight"]
    spool = problem.spool[slots.topic]
    between = np.zeros(servers)
    for left, right in pair_slots(slots):
        delay = network.server_server_ms[slots.server[left], slots.server[right]]
        amount = weight[left] * slots.values["subscribers"][right] * delay
        between += sum_by(slots.server[left], amount, servers)
    return RatioTotals(
        legs_ms=float(problem.leg_weight @ network.home_legs_ms(homes)),
        storage_used=sum_by(slots.server, spool * (publishers > 0), servers),
        compute_used=sum_by(slots.server, spool * publishers, servers),
        deliveries=sum_by(home, problem.publish_weight > 0, servers),
        between_ms=between,
    )


def ratio_cost(
    totals: RatioTotals, storage: FloatArray, compute: FloatArray, cloud_ms: float
) -> RatioCost:
    """Return the value of a plan from the sums over all topics."""
    theta = local_share(totals.storage_used, totals.compute_used, storage, compute)
    delegated = 2 * cloud_ms * totals.deliveries * (1 - theta)
    middle = float(np.sum(delegated + theta * totals.between_ms))
    count = max(float(totals.deliveries.sum()), 1.0)
    return RatioCost(
        y_ms=(totals.legs_ms + middle) / count,
        y1_ms=totals.legs_ms / count,
        y2_ms=middle / count,
        storage_used=totals.storage_used,
        compute_used=totals.compute_used,
        local_share=theta,
        deliveries=totals.deliveries,
        between_ms=totals.between_ms,
    )

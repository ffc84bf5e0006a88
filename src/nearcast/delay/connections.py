"""M1, the connection-limited model (2020, eqs. 1-12): storage and a limit of clients.

Server to server delay is 0 here, so a delivery is the publisher's cost plus the mean of its
subscribers' costs, and the mean over deliveries is a weighted sum over clients::

    Y = sum over clients of client_weight * (beta * excess_l + leg + r_l * d^C)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.network import Network, network_of
from nearcast.delay.ratio import delivery_weights
from nearcast.delay.slots import count_by_slot, sum_by
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray, Scenario

__all__ = [
    "ConnectionsCost",
    "ConnectionsProblem",
    "ConnectionsTotals",
    "connections_cost",
    "connections_problem",
    "connections_totals",
    "delegated_share",
    "draw_publishers",
    "drawn_weight",
    "evaluate_connections",
]


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsProblem:
    """The arrays of M1. Member rows are sorted by topic."""

    network: Network
    spool: FloatArray
    storage: FloatArray
    """A [server]."""
    client_limit: FloatArray
    """B [server]; infinite where there is none."""
    beta_ms: float
    topic_start: OffsetArray
    member_topic: IndexArray
    member_client: IndexArray
    publishes: BoolArray
    subscribes: BoolArray
    client_start: OffsetArray
    client_member: OffsetArray
    client_weight: FloatArray
    """Share of Y that a client's own cost contributes [client]; see `connections_problem`."""
    delivering: int
    """Topics with a delivery: those that Y is the mean of."""

    @property
    def topic_count(self) -> int:
        """Number of topics."""
        return len(self.spool)


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsCost:
    """The value of a plan under M1, whole and by server."""

    y_ms: float
    """Y, eq. (9)."""
    y1: float
    """Y1, eq. (10): mean delegated share."""
    y2: float
    """Y2, eq. (11): standard deviation of clients per server."""
    y3_km: float
    """Y3, eq. (12): mean distance to the home."""
    storage_used: FloatArray
    clients: FloatArray
    """Clients at home [server]."""
    delegated_share: FloatArray
    """r_l, eq. (6)."""
    server_ms: FloatArray
    """What a client pays at its home besides the leg [server]."""


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsTotals:
    """Sums over topics of what a plan uses and costs: those of two blocks of topics add up."""

    delivering: float
    """Topics with a delivery."""
    legs_ms: float
    """Sum over these topics of a delivery's two legs."""
    visits: FloatArray
    """How often the costs of a server count in the sum of all deliveries [server]."""
    storage_used: FloatArray


def connections_problem(scenario: Scenario) -> ConnectionsProblem:
    """Return the arrays of M1 for a scenario.

    Deviation: the paper draws one publisher per topic and trial; the weights here are the
    exact expectation over that draw, so that Y needs no seed. `draw_publishers` draws.
    Topics without a delivery (nobody else subscribes) do not count in the mean.
    """
    members, clients, topics = scenario.members, len(scenario.clients), len(scenario.topics)
    weight, leg = delivery_weights(members.topic, members.publishes, members.subscribes, topics)
    # One delivery a topic, each of its publishers equally likely.
    publishers = sum_by(members.topic, weight > 0, topics)
    delivering = int(np.count_nonzero(publishers))
    share = leg / np.maximum(publishers, 1)[members.topic] / max(delivering, 1)
    client_start, client_member = members.rows_by_client(clients)
    return ConnectionsProblem(
        network=network_of(scenario),
        spool=scenario.topics.spool,
        storage=scenario.servers.storage,
        client_limit=scenario.servers.client_limit,
        beta_ms=scenario.settings.beta_ms,
        topic_start=members.topic_start(topics),
        member_topic=members.topic,
        member_client=members.client,
        publishes=members.publishes,
        subscribes=members.subscribes,
        client_start=client_start,
        client_member=client_member,
        client_weight=sum_by(members.client, share, clients),
        delivering=delivering,
    )


def draw_publishers(
    member_topic: IndexArray,
    publishes: BoolArray,
    subscribes: BoolArray,
    topic_count: int,
    rng: np.random.Generator,
    trials: int,
) -> FloatArray:
    """Return a number in [0, 1) [trial, topic] for each topic with a delivery, 0 for the others."""
    weight, _ = delivery_weights(member_topic, publishes, subscribes, topic_count)
    delivering = np.flatnonzero(sum_by(member_topic, weight, topic_count))
    draws = np.zeros((trials, topic_count))
    draws[:, delivering] = rng.random((trials, len(delivering)))
    return draws


def drawn_weight(problem: ConnectionsProblem, draws: FloatArray) -> FloatArray:
    """Return the client weights of deliveries by the publishers that `draw_publishers` drew."""
    weight, _ = delivery_weights(
        problem.member_topic, problem.publishes, problem.subscribes, problem.topic_count
    )
    total = np.zeros(problem.network.client_count)
    rows = np.flatnonzero(weight)
    topic = problem.member_topic[rows]
    delivering, first, count = np.unique(topic, return_index=True, return_counts=True)
    for draw in draws:
        chosen = rows[first + (draw[delivering] * count).astype(np.int64)]
        total += sum_by(problem.member_client[chosen], np.ones(len(chosen)), len(total))
        topic_weight = np.zeros(problem.topic_count)
        topic_weight[delivering] = weight[chosen]
        heard = problem.subscribes * topic_weight[problem.member_topic]
        heard[chosen] = 0.0
        total += sum_by(problem.member_client, heard, len(total))
    return total / max(len(draws) * len(delivering), 1)


def delegated_share(storage_used: FloatArray, storage: FloatArray) -> FloatArray:
    """Return r_l, eq. (6): the chance that the processor is in the cloud."""
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(storage_used > storage, 1.0 - storage / storage_used, 0.0)
    return np.maximum(over, 0.0)


def evaluate_connections(
    problem: ConnectionsProblem, homes: IndexArray, client_weight: FloatArray | None = None
) -> ConnectionsCost:
    """Return the value of a plan, eqs. (4)-(12).

    Deviation: each client pays r_l of its own home, as eq. (5) says; the paper's prose charges
    the publisher's r_l to both sides.
    """
    totals = connections_totals(problem, homes, client_weight)
    return connections_cost(
        totals, homes, problem.network, problem.storage, problem.client_limit, problem.beta_ms
    )


def connections_totals(
    problem: ConnectionsProblem, homes: IndexArray, client_weight: FloatArray | None = None
) -> ConnectionsTotals:
    """Return the sums of a plan over the topics of a problem."""
    network, servers = problem.network, problem.network.server_count
    # Weights are shares of a mean over topics; sums over topics add up, means do not.
    weight = problem.client_weight if client_weight is None else client_weight
    weight = weight * problem.delivering
    rows = np.flatnonzero(problem.publishes)
    slots = count_by_slot(problem.member_topic[rows], homes[problem.member_client[rows]], servers)
    return ConnectionsTotals(
        delivering=float(problem.delivering),
        legs_ms=float(weight @ network.home_legs_ms(homes)),
        visits=sum_by(homes, weight, servers),
        storage_used=sum_by(slots.server, problem.spool[slots.topic], servers),
    )


def connections_cost(
    totals: ConnectionsTotals,
    homes: IndexArray,
    network: Network,
    storage: FloatArray,
    client_limit: FloatArray,
    beta_ms: float,
) -> ConnectionsCost:
    """Return the value of a plan from the sums over all topics and the homes of all clients."""
    servers = network.server_count
    clients = sum_by(homes, np.ones(len(homes)), servers)
    r = delegated_share(totals.storage_used, storage)
    server_ms = beta_ms * np.maximum(clients - client_limit, 0.0) + r * network.cloud_ms
    km = np.hypot(
        network.client_x_km - network.server_x_km[homes],
        network.client_y_km - network.server_y_km[homes],
    )
    return ConnectionsCost(
        y_ms=(totals.legs_ms + float(totals.visits @ server_ms)) / max(totals.delivering, 1.0),
        y1=float(r.mean()),
        y2=float(clients.std(ddof=1)) if servers > 1 else 0.0,
        y3_km=float(km.mean()) if len(km) else 0.0,
        storage_used=totals.storage_used,
        clients=clients,
        delegated_share=r,
        server_ms=server_ms,
    )

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
    "connections_problem",
    "delegated_share",
    "drawn_client_weight",
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


def connections_problem(scenario: Scenario) -> ConnectionsProblem:
    """Return the arrays of M1 for a scenario.

    Deviation: the paper draws one publisher per topic and trial; the weights here are the
    exact expectation over that draw, so that Y needs no seed. `drawn_client_weight` draws.
    Topics without a delivery (nobody else subscribes) do not count in the mean.
    """
    members, clients, topics = scenario.members, len(scenario.clients), len(scenario.topics)
    weight, leg = delivery_weights(members.topic, members.publishes, members.subscribes, topics)
    # One delivery a topic, each of its publishers equally likely.
    publishers = sum_by(members.topic, weight > 0, topics)
    delivering = max(int(np.count_nonzero(publishers)), 1)
    share = leg / np.maximum(publishers, 1)[members.topic] / delivering
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
    )


def drawn_client_weight(
    problem: ConnectionsProblem, rng: np.random.Generator, trials: int
) -> FloatArray:
    """Return the client weights of `trials` deliveries a topic with drawn publishers (Sec. V)."""
    weight, _ = delivery_weights(
        problem.member_topic, problem.publishes, problem.subscribes, problem.topic_count
    )
    total = np.zeros(problem.network.client_count)
    rows = np.flatnonzero(weight)
    topic = problem.member_topic[rows]
    delivering, first, count = np.unique(topic, return_index=True, return_counts=True)
    for _ in range(trials):
        chosen = rows[first + (rng.random(len(first)) * count).astype(np.int64)]
        total += sum_by(problem.member_client[chosen], np.ones(len(chosen)), len(total))
        topic_weight = np.zeros(problem.topic_count)
        topic_weight[delivering] = weight[chosen]
        heard = problem.subscribes * topic_weight[problem.member_topic]
        heard[chosen] = 0.0
        total += sum_by(problem.member_client, heard, len(total))
    return total / max(trials * len(delivering), 1)


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
    network, servers = problem.network, problem.network.server_count
    weight = problem.client_weight if client_weight is None else client_weight
    rows = np.flatnonzero(problem.publishes)
    slots = count_by_slot(problem.member_topic[rows], homes[problem.member_client[rows]], servers)
    storage_used = sum_by(slots.server, problem.spool[slots.topic], servers)
    clients = sum_by(homes, np.ones(len(homes)), servers)
    r = delegated_share(storage_used, problem.storage)
    excess_ms = problem.beta_ms * np.maximum(clients - problem.client_limit, 0.0)
    legs = network.home_legs_ms(homes)
    server_ms = excess_ms + r * network.cloud_ms
    km = np.hypot(
        network.client_x_km - network.server_x_km[homes],
        network.client_y_km - network.server_y_km[homes],
    )
    return ConnectionsCost(
        y_ms=float(weight @ (legs + server_ms[homes])),
        y1=float(r.mean()),
        y2=float(clients.std(ddof=1)) if servers > 1 else 0.0,
        y3_km=float(km.mean()) if len(km) else 0.0,
        storage_used=storage_used,
        clients=clients,
        delegated_share=r,
    )

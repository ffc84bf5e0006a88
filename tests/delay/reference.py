"""The papers' formulas as plain loops: slow, obvious, and independent of the array kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import (
    Clients,
    IndexArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)


def random_scenario(seed: int, *, measured: bool = False, all_both: bool = False) -> Scenario:
    """A small random scenario: members that only publish or only subscribe, tight limits."""
    rng = np.random.default_rng(seed)
    servers, clients, topics = (int(rng.integers(1, 5)), int(rng.integers(3, 12)), 3)
    rows: list[tuple[int, int, bool, bool]] = []
    for topic in range(topics):
        size = int(rng.integers(1, clients + 1))
        for rank, client in enumerate(rng.permutation(clients)[:size].tolist()):
            role = int(rng.integers(0, 3))
            publishes = all_both or rank == 0 or role != 1
            rows.append((topic, client, publishes, all_both or not publishes or role != 0))
    topic_of, client_of, may_publish, may_subscribe = zip(*rows, strict=True)
    between = rng.uniform(0.1, 3, (servers, servers))
    np.fill_diagonal(between, 0)
    return Scenario(
        settings=ScenarioSettings("random", 10, 10, cloud_ms=float(rng.uniform(0.5, 5))),
        servers=Servers(
            ids=pa.array(range(servers)),
            x_km=rng.uniform(0, 10, servers),
            y_km=rng.uniform(0, 10, servers),
            storage=rng.uniform(2, 20, servers),
            compute=rng.uniform(5, 60, servers),
            client_limit=rng.integers(1, 5, servers).astype(np.float64),
            net_id=pa.array(["n"] * servers),
        ),
        clients=Clients(
            pa.array(range(clients)), rng.uniform(0, 10, clients), rng.uniform(0, 10, clients)
        ),
        topics=Topics(
            ids=pa.array(range(topics)),
            spool=rng.uniform(1, 8, topics),
            permissible_ms=rng.uniform(0.2, 3, topics),
            process_ms=rng.uniform(0, 1, topics),
        ),
        members=Members(
            topic=np.array(topic_of, dtype=np.int32),
            client=np.array(client_of, dtype=np.int32),
            publishes=np.array(may_publish),
            subscribes=np.array(may_subscribe),
            rate_hz=np.ones(len(rows)),
        ),
        client_server_ms=rng.uniform(0, 2, (clients, servers)) if measured else None,
        server_server_ms=between if measured else None,
    )


def random_homes(scenario: Scenario, seed: int) -> IndexArray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, len(scenario.servers), len(scenario.clients)).astype(np.int32)


def leg_ms(scenario: Scenario, client: int, server: int) -> float:
    if scenario.client_server_ms is not None:
        return float(scenario.client_server_ms[client, server])
    return scenario.settings.ms_per_km * math.dist(
        (scenario.clients.x_km[client], scenario.clients.y_km[client]),
        (scenario.servers.x_km[server], scenario.servers.y_km[server]),
    )


def between_ms(scenario: Scenario, a: int, b: int) -> float:
    if scenario.server_server_ms is not None:
        return float(scenario.server_server_ms[a, b])
    return scenario.settings.ms_per_km * math.dist(
        (scenario.servers.x_km[a], scenario.servers.y_km[a]),
        (scenario.servers.x_km[b], scenario.servers.y_km[b]),
    )


def roles(scenario: Scenario) -> tuple[list[list[int]], list[list[int]]]:
    """Publishers and subscribers of each topic, as client indices."""
    publishers: list[list[int]] = [[] for _ in range(len(scenario.topics))]
    subscribers: list[list[int]] = [[] for _ in range(len(scenario.topics))]
    members = scenario.members
    for row in range(len(members)):
        if members.publishes[row]:
            publishers[members.topic[row]].append(int(members.client[row]))
        if members.subscribes[row]:
            subscribers[members.topic[row]].append(int(members.client[row]))
    return publishers, subscribers


def server_use(scenario: Scenario, homes: IndexArray) -> tuple[list[float], list[float]]:
    """Storage used and eq. (1) of 2021, by server."""
    publishers, _ = roles(scenario)
    storage = [0.0] * len(scenario.servers)
    compute = [0.0] * len(scenario.servers)
    for server in range(len(scenario.servers)):
        for topic, clients in enumerate(publishers):
            here = sum(1 for client in clients if homes[client] == server)
            if here:
                storage[server] += float(scenario.topics.spool[topic])
                compute[server] += here * float(scenario.topics.spool[topic])
    return storage, compute


@dataclass
class Ratio:
    y: float
    y1: float
    y2: float
    theta: list[float]


def ratio(scenario: Scenario, homes: IndexArray) -> Ratio:
    """2021, eqs. (2), (6)-(9), delivery by delivery."""
    storage, compute = server_use(scenario, homes)
    theta = []
    for server in range(len(scenario.servers)):
        share = 1.0
        if storage[server] > 0:
            share = min(share, scenario.servers.storage[server] / storage[server])
        if compute[server] > 0:
            share = min(share, scenario.servers.compute[server] / compute[server])
        theta.append(share)
    publishers, subscribers = roles(scenario)
    legs, middles = [], []
    for topic, senders in enumerate(publishers):
        for sender in senders:
            receivers = [client for client in subscribers[topic] if client != sender]
            if not receivers:
                continue
            home = int(homes[sender])
            leg = middle = 0.0
            for receiver in receivers:
                other = int(homes[receiver])
                leg += leg_ms(scenario, sender, home) + leg_ms(scenario, receiver, other)
                middle += 2 * scenario.settings.cloud_ms * (1 - theta[home])
                middle += theta[home] * between_ms(scenario, home, other)
            legs.append(leg / len(receivers))
            middles.append(middle / len(receivers))
    count = max(len(legs), 1)
    y1, y2 = sum(legs) / count, sum(middles) / count
    return Ratio(y1 + y2, y1, y2, theta)


def connections(scenario: Scenario, homes: IndexArray) -> tuple[float, list[float]]:
    """2020, eqs. (4)-(9): the mean over topics of the mean over who publishes; and r_l."""
    storage, _ = server_use(scenario, homes)
    limits = scenario.servers.storage
    r = [max(0.0, 1 - limits[i] / used) if used else 0.0 for i, used in enumerate(storage)]
    clients = [int(np.sum(homes == server)) for server in range(len(scenario.servers))]

    def cost(client: int) -> float:
        home = int(homes[client])
        excess = max(0.0, clients[home] - scenario.servers.client_limit[home])
        return float(
            scenario.settings.beta_ms * excess
            + leg_ms(scenario, client, home)
            + r[home] * scenario.settings.cloud_ms
        )

    publishers, subscribers = roles(scenario)
    topics = []
    for topic, senders in enumerate(publishers):
        deliveries = []
        for sender in senders:
            receivers = [client for client in subscribers[topic] if client != sender]
            if receivers:
                mean = sum(cost(client) for client in receivers) / len(receivers)
                deliveries.append(cost(sender) + mean)
        if deliveries:
            topics.append(sum(deliveries) / len(deliveries))
    return (sum(topics) / len(topics) if topics else 0.0), r


def placement(
    scenario: Scenario,
    homes: IndexArray,
    publish: IndexArray,
    brokers: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> tuple[float, float, float]:
    """2022, eqs. (8)-(12), pair by pair."""
    members = scenario.members
    d1 = d2 = d3 = 0.0
    for left in range(len(members)):
        for right in range(len(members)):
            topic = int(members.topic[left])
            if left == right or members.topic[right] != topic:
                continue
            if not (members.publishes[left] and members.subscribes[right]):
                continue
            sender, receiver = int(members.client[left]), int(members.client[right])
            at, home = int(publish[left]), int(homes[receiver])
            delay = leg_ms(scenario, sender, at) + float(scenario.topics.process_ms[topic])
            if brokers[topic, at]:
                delay += between_ms(scenario, at, home)
            else:
                delay += 2 * scenario.settings.cloud_ms
            delay += leg_ms(scenario, receiver, home)
            km = math.dist(
                (scenario.clients.x_km[sender], scenario.clients.y_km[sender]),
                (scenario.clients.x_km[receiver], scenario.clients.y_km[receiver]),
            )
            d1 += delay
            d2 += delay / (km + 0.1)
            d3 += max(delay - float(scenario.topics.permissible_ms[topic]), 0.0)
    return d1, d2, d3

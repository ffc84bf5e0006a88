"""Random scenarios with members of all roles, idle clients and, if asked, measured delays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.domain.plan import Brokers, Plan
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)


def random_scenario(
    seed: int,
    *,
    servers: int = 8,
    clients: int = 120,
    topics: int = 30,
    largest: int = 12,
    measured: bool = False,
) -> Scenario:
    """Return topics of 1 to `largest` members; about a tenth of the clients is in none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, topics)
    active = rng.permutation(clients)[: clients * 9 // 10]
    client = np.concatenate([rng.choice(active, size, replace=False) for size in sizes])
    role = rng.integers(1, 4, len(client))
    matrices = {}
    if measured:
        between = rng.uniform(0.1, 3, (servers, servers))
        np.fill_diagonal(between, 0.0)
        matrices = {
            "client_server_ms": rng.uniform(0.1, 4, (clients, servers)),
            "server_server_ms": between,
        }
    return Scenario(
        settings=ScenarioSettings(
            name="random", width_km=20.0, height_km=20.0, beta_ms=0.25, seed=seed
        ),
        servers=Servers(
            ids=pa.array([f"s{n}" for n in range(servers)]),
            x_km=rng.uniform(0, 20, servers),
            y_km=rng.uniform(0, 20, servers),
            storage=rng.uniform(10, 60, servers),
            compute=rng.uniform(30, 150, servers),
            client_limit=rng.integers(5, 20, servers).astype(np.float64),
            net_id=pa.array(["net0"] * servers),
        ),
        clients=Clients(
            ids=pa.array(range(1000, 1000 + clients)),
            x_km=rng.uniform(0, 20, clients),
            y_km=rng.uniform(0, 20, clients),
        ),
        topics=Topics(
            ids=pa.array([f"t{n}" for n in range(topics)]),
            spool=rng.integers(1, 15, topics).astype(np.float64),
            permissible_ms=rng.uniform(0.5, 4, topics),
            process_ms=rng.uniform(0, 1, topics),
        ),
        members=Members(
            topic=np.repeat(np.arange(topics), sizes).astype(np.int32),
            client=client.astype(np.int32),
            publishes=role != 2,
            subscribes=role != 1,
            rate_hz=np.ones(len(client)),
        ),
        **matrices,
    )


def random_plan(scenario: Scenario, seed: int) -> Plan:
    """Return homes, publish servers and brokers (some in the cloud), in no order."""
    rng = np.random.default_rng(seed)
    servers, topics = len(scenario.servers), len(scenario.topics)
    publish = rng.integers(servers, size=len(scenario.members))
    placed = rng.permutation(topics * servers)[: topics * servers // 2]
    return Plan(
        homes=rng.integers(servers, size=len(scenario.clients)).astype(np.int32),
        publish=np.where(scenario.members.publishes, publish, -1).astype(np.int32),
        brokers=Brokers(
            topic=(placed // servers).astype(np.int32),
            server=(placed % servers).astype(np.int32),
            on_edge=rng.random(len(placed)) < 0.7,
            share=np.ones(len(placed)),
        ),
    )

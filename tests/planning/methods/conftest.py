"""Random scenarios, small enough for plain loops, with members that only publish or subscribe."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)

MakeScenario = Callable[..., Scenario]


def make(
    seed: int,
    *,
    servers: int = 8,
    clients: int = 40,
    topics: int = 12,
    members: int = 7,
    storage: float = 30.0,
    compute: float = 90.0,
    client_limit: float = 6.0,
) -> Scenario:
    rng = np.random.default_rng(seed)
    client = np.concatenate([rng.permutation(clients)[:members] for _ in range(topics)])
    rows = len(client)
    role = rng.integers(1, 4, rows)
    return Scenario(
        settings=ScenarioSettings(name="random", width_km=20.0, height_km=20.0),
        servers=Servers(
            ids=pa.array(range(servers)),
            x_km=rng.uniform(0, 20, servers),
            y_km=rng.uniform(0, 20, servers),
            storage=np.full(servers, storage) * rng.integers(1, 3, servers),
            compute=np.full(servers, compute) * rng.integers(1, 3, servers),
            client_limit=np.full(servers, client_limit),
            net_id=pa.array(["net0"] * servers),
        ),
        clients=Clients(
            ids=pa.array(range(clients)),
            x_km=rng.uniform(0, 20, clients),
            y_km=rng.uniform(0, 20, clients),
        ),
        topics=Topics(
            ids=pa.array(range(topics)),
            spool=rng.integers(1, 15, topics).astype(np.float64),
            permissible_ms=np.full(topics, np.inf),
            process_ms=np.zeros(topics),
        ),
        members=Members(
            topic=np.repeat(np.arange(topics, dtype=np.int32), members),
            client=client.astype(np.int32),
            publishes=(role & 1).astype(np.bool_),
            subscribes=(role & 2).astype(np.bool_),
            rate_hz=np.ones(rows),
        ),
    )


@pytest.fixture
def make_scenario() -> MakeScenario:
    """Return the function that makes a scenario from a seed."""
    return make

"""The setting of the 2022 placement paper: few clients, few servers, storage that does not do.

The paper leaves memberships, spools, storage, permissible delays and the cloud's delay open;
the defaults here make storage tight and let some topics miss their permissible delay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = ["Placement2022", "generate_placement2022"]


@dataclass(frozen=True, slots=True)
class Placement2022:
    """Parameters; the defaults are the paper's where it names them (Sec. 4)."""

    clients: int = 30
    servers: int = 7
    topics: int = 6
    smallest_topic: int = 5
    """Fewest members of a topic; every member publishes and subscribes."""
    largest_topic: int = 10
    field_km: float = 10.0
    spools_per_server: float = 2.0
    """Storage of a server in mean spools; a spool holds one message of each member."""
    shortest_permissible_ms: float = 0.4
    longest_permissible_ms: float = 1.4
    """The topics' permissible delays are spread evenly between the two, in random order."""
    cloud_ms: float = 5.0

    def __post_init__(self) -> None:
        if min(self.clients, self.servers, self.topics) < 1:
            raise ConfigError("clients, servers and topics must be 1 or more")
        if not 1 <= self.smallest_topic <= self.largest_topic <= self.clients:
            raise ConfigError(
                "the members of a topic must be 1 or more and at most the clients, "
                f"not {self.smallest_topic} to {self.largest_topic} of {self.clients}"
            )
        if not self.field_km > 0:
            raise ConfigError(f"the field must be positive, not {self.field_km}")
        if not self.spools_per_server >= 0:
            raise ConfigError(f"spools per server must be 0 or more, not {self.spools_per_server}")
        if not 0 < self.shortest_permissible_ms <= self.longest_permissible_ms:
            raise ConfigError("permissible delays must be positive, the shortest one first")
        if not self.cloud_ms >= 0:
            raise ConfigError(f"the cloud delay must be 0 or more, not {self.cloud_ms}")


def generate_placement2022(parameters: Placement2022, seed: int) -> Scenario:
    """Return the scenario of a seed; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    server_km = rng.uniform(0, parameters.field_km, (parameters.servers, 2))
    client_km = rng.uniform(0, parameters.field_km, (parameters.clients, 2))
    sizes = rng.integers(
        parameters.smallest_topic, parameters.largest_topic, parameters.topics, endpoint=True
    )
    client = [np.sort(rng.choice(parameters.clients, size, replace=False)) for size in sizes]
    permissible_ms = rng.permutation(
        np.linspace(
            parameters.shortest_permissible_ms,
            parameters.longest_permissible_ms,
            parameters.topics,
        )
    )
    rows, spool = int(sizes.sum()), sizes.astype(np.float64)
    return Scenario(
        settings=ScenarioSettings(
            name="placement2022",
            width_km=parameters.field_km,
            height_km=parameters.field_km,
            cloud_ms=parameters.cloud_ms,
            seed=seed,
            generator="placement2022",
            extra={"spools_per_server": parameters.spools_per_server},
        ),
        servers=Servers(
            ids=pa.array(range(parameters.servers)),
            x_km=server_km[:, 0].copy(),
            y_km=server_km[:, 1].copy(),
            storage=np.full(parameters.servers, parameters.spools_per_server * spool.mean()),
            compute=np.full(parameters.servers, np.inf),
            client_limit=np.full(parameters.servers, np.inf),
            net_id=pa.array(["net0"] * parameters.servers),
        ),
        clients=Clients(
            ids=pa.array(range(parameters.clients)),
            x_km=client_km[:, 0].copy(),
            y_km=client_km[:, 1].copy(),
        ),
        topics=Topics(
            ids=pa.array(range(parameters.topics)),
            spool=spool,
            permissible_ms=permissible_ms,
            process_ms=np.zeros(parameters.topics),
        ),
        members=Members(
            topic=np.repeat(np.arange(parameters.topics, dtype=np.int32), sizes),
            client=np.concatenate(client).astype(np.int32),
            publishes=np.ones(rows, dtype=np.bool_),
            subscribes=np.ones(rows, dtype=np.bool_),
            rate_hz=np.ones(rows),
        ),
    )

"""The setting of RELOC 2021 (seed paper Sec. 7): topics as Gaussian clouds of members.

Beyond the paper's 64 topics on 16 servers the field, the servers and their limits grow with
the number of topics, so that load per server stays what the paper has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.domain.generators.server_sites import grid_servers
from nearcast.domain.scenario import (
    Clients,
    FloatArray,
    IndexArray,
    Members,
    OffsetArray,
    Scenario,
    ScenarioSettings,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = ["Reloc2021", "draw_inside", "generate_reloc2021"]

_SERVER_SPACING_KM = 5.0
_MEAN_TOPIC = 14.3
_SMALLEST_TOPIC, _LARGEST_TOPIC = 10 / _MEAN_TOPIC, 21 / _MEAN_TOPIC
"""Relative to the mean."""
_MOST_TOPICS_OF_A_CLIENT = 4
_PAPER_TOPICS_PER_SERVER = 4.0
_PAPER_FIELD_KM = 25.0
_PAPER_CLIENTS = 1000
"""At most so many clients are known to a topic: beyond the paper's field those around it."""


@dataclass(frozen=True, slots=True)
class Reloc2021:
    """Parameters; the defaults are table 2 of the paper."""

    sigma_km: float = 5.0
    """Standard deviation of a topic's members around its centre."""
    spool_per_member: float = 2.0
    """p: the spool holds p messages of each member on average."""
    topics: int = 64
    overlap: float = 0.03
    """Chance that a member is an already known client."""
    members_per_topic: float = _MEAN_TOPIC
    """On average; the authors' extract has 10 to 21, 14.3 on average."""
    servers_per_side: int = 4
    """The servers stand on a square grid of this many rows and columns."""
    storage: float = 640.0
    compute: float = 3200.0

    def __post_init__(self) -> None:
        if not self.sigma_km > 0:
            raise ConfigError(f"sigma must be positive, not {self.sigma_km}")
        if not self.spool_per_member > 0:
            raise ConfigError(f"spool per member must be positive, not {self.spool_per_member}")
        if not 0 <= self.overlap < 1:
            raise ConfigError(f"overlap must be in [0, 1), not {self.overlap}")
        if self.topics < 1 or self.servers_per_side < 1:
            raise ConfigError("topics and servers must be 1 or more")
        if not self.members_per_topic >= 3:
            raise ConfigError(f"members per topic must be 3 or more, not {self.members_per_topic}")


def generate_reloc2021(parameters: Reloc2021, seed: int) -> Scenario:
    """Return the scenario of a seed; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    side = parameters.servers_per_side
    field_km = _SERVER_SPACING_KM * (side + 1)
    sizes = _draw_sizes(rng, parameters.topics, parameters.members_per_topic)
    topic = np.repeat(np.arange(parameters.topics, dtype=np.int32), sizes)
    client, first_row = _draw_members(rng, sizes, parameters.overlap)
    centres = _sort_along_strips(rng.uniform(0, field_km, (parameters.topics, 2)), field_km)
    place = draw_inside(rng, centres[topic[first_row]], parameters.sigma_km, field_km)
    # Larger scenarios than the paper's are as tight as it is: a spool grows with the topic's
    # members, the compute it takes with their square.
    load = max(parameters.topics / (side * side) / _PAPER_TOPICS_PER_SERVER, 1.0)
    size = parameters.members_per_topic / _MEAN_TOPIC
    return Scenario(
        settings=ScenarioSettings(
            name=f"reloc2021-sigma{parameters.sigma_km:g}-p{parameters.spool_per_member:g}",
            width_km=field_km,
            height_km=field_km,
            seed=seed,
            generator="reloc2021",
            extra={
                "sigma_km": parameters.sigma_km,
                "spool_per_member": parameters.spool_per_member,
                "overlap": parameters.overlap,
            },
        ),
        servers=grid_servers(
            side,
            field_km,
            storage=parameters.storage * load * size,
            compute=parameters.compute * load * size**2,
        ),
        clients=Clients(
            ids=pa.array(range(len(place))), x_km=place[:, 0].copy(), y_km=place[:, 1].copy()
        ),
        topics=Topics(
            ids=pa.array(range(parameters.topics)),
            spool=parameters.spool_per_member * sizes.astype(np.float64),
            permissible_ms=np.full(parameters.topics, np.inf),
            process_ms=np.zeros(parameters.topics),
        ),
        members=Members(
            topic=topic,
            client=client,
            publishes=np.ones(len(topic), dtype=np.bool_),
            subscribes=np.ones(len(topic), dtype=np.bool_),
            rate_hz=np.ones(len(topic)),
        ),
    )


def _draw_sizes(rng: np.random.Generator, topics: int, mean: float) -> OffsetArray:
    """Return the number of members of each topic, spread as in the authors' extract."""
    smallest, largest = round(_SMALLEST_TOPIC * mean), round(_LARGEST_TOPIC * mean)
    extra = largest - smallest
    return smallest + rng.binomial(extra, (mean - smallest) / extra, topics)


def _sort_along_strips(centre_km: FloatArray, field_km: float) -> FloatArray:
    """Return the centres in an order in which followers are near; unchanged in the paper's field.

    In a field of the paper's size a known client may be anywhere. In a larger one it would be
    hundreds of kilometres away, which no topic of the paper has.
    """
    if field_km <= _PAPER_FIELD_KM:
        return centre_km
    strip = (centre_km[:, 1] // _PAPER_FIELD_KM).astype(np.int64)
    along = np.where(strip % 2 == 0, centre_km[:, 0], -centre_km[:, 0])
    return centre_km[np.lexsort((along, strip))]


def _draw_members(
    rng: np.random.Generator, sizes: OffsetArray, overlap: float
) -> tuple[IndexArray, IndexArray]:
    """Return the client of each member row and the row in which each client appears first."""
    rows = int(sizes.sum())
    wants_known = rng.random(rows) < overlap
    pick = rng.random(rows)
    client = np.empty(rows, dtype=np.int32)
    first_row: list[int] = []
    topics_of: list[int] = []
    row = 0
    for size in sizes.tolist():
        all_known, used = len(first_row), set[int]()
        known = min(all_known, _PAPER_CLIENTS)
        for _ in range(size):
            chosen = (
                all_known - known + int(pick[row] * known) if wants_known[row] and known else -1
            )
            if chosen < 0 or chosen in used or topics_of[chosen] >= _MOST_TOPICS_OF_A_CLIENT:
                chosen = len(first_row)
                first_row.append(row)
                topics_of.append(0)
            client[row] = chosen
            topics_of[chosen] += 1
            used.add(chosen)
            row += 1
    return client, np.array(first_row, dtype=np.int32)


def draw_inside(
    rng: np.random.Generator, centre_km: FloatArray, sigma_km: float, field_km: float
) -> FloatArray:
    """Return a Gaussian point around each centre, redrawn until it is inside the field."""
    place = np.full_like(centre_km, math.nan)
    outside = np.arange(len(centre_km))
    while len(outside):
        place[outside] = rng.normal(centre_km[outside], sigma_km)
        beyond = (place[outside] < 0) | (place[outside] > field_km)
        outside = outside[beyond.any(axis=1)]
    return place

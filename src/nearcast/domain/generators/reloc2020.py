"""The setting of RELOC 2020 (seed paper Sec. V): topics of a social graph on 100 servers.

A topic is a follower with its followees. The paper takes them from a data set that is not
public; here sizes and popularity are drawn from skewed distributions with the paper's totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.domain.scenario import (
    Clients,
    FloatArray,
    IndexArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = ["Reloc2020", "generate_reloc2020"]

_FIELD_KM = 10.0
_SIGMA_KM = 2.0
_SERVERS = 100
_STORAGE = 160.0
_CLIENT_LIMIT = 100.0
_TABLE_RATIO = (0.07, 0.52, 0.81, 0.95, 1.28)
_TABLE_CLIENTS = (384, 1865, 2714, 3123, 4058)
_TABLE_TOPICS = (142, 914, 1361, 1587, 2053)
_SIZE_SKEW = 0.5
"""Standard deviation of the logarithm of a topic's expected size."""
_POPULARITY_SKEW = 1.0
"""The same of a client's chance to be followed."""


@dataclass(frozen=True, slots=True)
class Reloc2020:
    """Parameters; the defaults are tables I and II of the paper."""

    ratio: float = 0.52
    """Requirement ratio: spools if no two members shared one, over the storage of all servers."""
    grid: bool = True
    """Servers on a 10 x 10 grid; else uniformly random. The paper does not say which."""

    def __post_init__(self) -> None:
        if not 0.01 <= self.ratio < math.inf:
            raise ConfigError(f"ratio must be 0.01 or more, not {self.ratio}")


def generate_reloc2020(parameters: Reloc2020, seed: int) -> Scenario:
    """Return the scenario of a seed; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    clients = _from_table(parameters.ratio, _TABLE_CLIENTS)
    topics = _from_table(parameters.ratio, _TABLE_TOPICS)
    rows = round(parameters.ratio * _STORAGE * _SERVERS)
    topic, client = _draw_social_graph(rng, clients, topics, rows)
    _, first_row = np.unique(client, return_index=True)
    centres = rng.uniform(0, _FIELD_KM, (topics, 2))
    place = _draw_inside(rng, centres[topic[first_row]])
    server_place = _grid_places() if parameters.grid else rng.uniform(0, _FIELD_KM, (_SERVERS, 2))
    return Scenario(
        settings=ScenarioSettings(
            name=f"reloc2020-ratio{parameters.ratio:g}",
            width_km=_FIELD_KM,
            height_km=_FIELD_KM,
            seed=seed,
            generator="reloc2020",
            extra={"ratio": parameters.ratio, "grid": parameters.grid},
        ),
        servers=Servers(
            ids=pa.array(range(_SERVERS)),
            x_km=server_place[:, 0].copy(),
            y_km=server_place[:, 1].copy(),
            storage=np.full(_SERVERS, _STORAGE),
            compute=np.full(_SERVERS, np.inf),
            client_limit=np.full(_SERVERS, _CLIENT_LIMIT),
            net_id=pa.array(["net0"] * _SERVERS),
        ),
        clients=Clients(
            ids=pa.array(range(clients)), x_km=place[:, 0].copy(), y_km=place[:, 1].copy()
        ),
        topics=Topics(
            ids=pa.array(range(topics)),
            spool=np.ones(topics),
            permissible_ms=np.full(topics, np.inf),
            process_ms=np.zeros(topics),
        ),
        members=Members(
            topic=topic,
            client=client,
            publishes=np.ones(rows, dtype=np.bool_),
            subscribes=np.ones(rows, dtype=np.bool_),
            rate_hz=np.ones(rows),
        ),
    )


def _from_table(ratio: float, column: tuple[int, ...]) -> int:
    """Return M or N of a ratio: table II, straight lines between and proportional beyond it."""
    if ratio < _TABLE_RATIO[0]:
        return round(column[0] * ratio / _TABLE_RATIO[0])
    if ratio > _TABLE_RATIO[-1]:
        return round(column[-1] * ratio / _TABLE_RATIO[-1])
    return round(float(np.interp(ratio, _TABLE_RATIO, column)))


def _draw_social_graph(
    rng: np.random.Generator, clients: int, topics: int, rows: int
) -> tuple[IndexArray, IndexArray]:
    """Return (topic, client) of each member row, sorted by topic, the follower first.

    Client n is the follower of topic n; every other client is followed at least once.
    """
    sizes = _draw_sizes(rng, topics, rows, largest=clients // 2)
    topic = np.repeat(np.arange(topics, dtype=np.int32), sizes)
    client = np.full(rows, -1, dtype=np.int32)
    is_follower = np.diff(topic, prepend=-1) > 0
    client[is_follower] = np.arange(topics)
    free = rng.permutation(np.flatnonzero(~is_follower))
    only_followed = clients - topics
    client[free[:only_followed]] = np.arange(topics, clients)
    popularity = np.cumsum(rng.lognormal(0.0, _POPULARITY_SKEW, clients))
    open_rows = np.sort(free[only_followed:])
    while len(open_rows):
        client[open_rows] = np.searchsorted(
            popularity, rng.uniform(0, popularity[-1], len(open_rows)), side="right"
        )
        open_rows = _repeated(topic, client, clients, np.isin(np.arange(rows), open_rows))
    return topic, client


def _draw_sizes(
    rng: np.random.Generator, topics: int, rows: int, largest: int
) -> npt.NDArray[np.int64]:
    """Return topic sizes from 2 to `largest` that add up to `rows`."""
    appeal = rng.lognormal(0.0, _SIZE_SKEW, topics)
    sizes = np.full(topics, 2)
    while (missing := rows - int(sizes.sum())) > 0:
        appeal[sizes >= largest] = 0.0
        sizes = np.minimum(sizes + rng.multinomial(missing, appeal / appeal.sum()), largest)
    return sizes


def _repeated(
    topic: IndexArray, client: IndexArray, clients: int, redrawn: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the redrawn rows whose client is in the topic by an earlier or a fixed row."""
    key = topic.astype(np.int64) * clients + client
    # Fixed rows sort before redrawn ones, so that only the latter are ever given up.
    order = np.lexsort((redrawn, key))
    again = order[1:][key[order[1:]] == key[order[:-1]]]
    return np.sort(again)


def _grid_places() -> FloatArray:
    """Return the centres of the 10 x 10 squares of the field."""
    axis = (np.arange(10) + 0.5) * _FIELD_KM / 10
    x_km, y_km = np.meshgrid(axis, axis, indexing="ij")
    return np.column_stack([x_km.ravel(), y_km.ravel()])


def _draw_inside(rng: np.random.Generator, centre_km: FloatArray) -> FloatArray:
    """Return a Gaussian point around each centre, redrawn until it is inside the field."""
    place = np.full_like(centre_km, math.nan)
    outside = np.arange(len(centre_km))
    while len(outside):
        place[outside] = rng.normal(centre_km[outside], _SIGMA_KM)
        beyond = (place[outside] < 0) | (place[outside] > _FIELD_KM)
        outside = outside[beyond.any(axis=1)]
    return place

"""The scenario in memory: servers, clients, topics and who is a member of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "BoolArray",
    "Clients",
    "FloatArray",
    "IndexArray",
    "Members",
    "OffsetArray",
    "Scenario",
    "ScenarioSettings",
    "Servers",
    "Topics",
]

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int32]
"""Positions in a table: the server, client or topic index, never the user's id."""
OffsetArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_ROWS_OF_A_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class ScenarioSettings:
    """What ``scenario.json`` says."""

    name: str
    width_km: float
    height_km: float
    ms_per_km: float = 0.1
    """Delay per kilometre, gamma in the papers."""
    cloud_ms: float = 5.0
    """One-way delay between any edge server and the cloud."""
    beta_ms: float = 1.0
    """Delay per client above a server's client limit (model ``connections``)."""
    seed: int | None = None
    generator: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Every other key of ``scenario.json``, kept as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Servers:
    """Edge servers; every array has one entry a server."""

    ids: pa.Array
    x_km: FloatArray
    y_km: FloatArray
    storage: FloatArray
    compute: FloatArray
    client_limit: FloatArray
    net_id: pa.Array

    def __len__(self) -> int:
        return len(self.x_km)


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Devices that publish or subscribe."""

    ids: pa.Array
    x_km: FloatArray
    y_km: FloatArray

    def __len__(self) -> int:
        return len(self.x_km)


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """Topics with the size of their spool."""

    ids: pa.Array
    spool: FloatArray
    permissible_ms: FloatArray
    """Delay that the topic tolerates; infinite when it has no limit."""
    process_ms: FloatArray

    def __len__(self) -> int:
        return len(self.spool)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Rows (topic, client), sorted by topic; within a topic in the order of the file."""

    topic: IndexArray
    client: IndexArray
    publishes: BoolArray
    subscribes: BoolArray
    rate_hz: FloatArray

    def __len__(self) -> int:
        return len(self.topic)

    def pieces(self) -> Iterator[slice]:
        """Give all rows in pieces of whole topics, so that nothing as long as all need be made."""
        begin = 0
        while begin < len(self):
            last = self.topic[min(begin + _ROWS_OF_A_PIECE, len(self)) - 1]
            end = int(np.searchsorted(self.topic, last, side="right"))
            yield slice(begin, end)
            begin = end

    def rows(self, rows: slice) -> Members:
        """Return some of the rows, not copied."""
        return Members(*(getattr(self, name)[rows] for name in Members.__slots__))

    def topic_start(self, topic_count: int) -> OffsetArray:
        """Return where each topic's rows start; topic n has rows start[n]:start[n + 1]."""
        return np.searchsorted(self.topic, np.arange(topic_count + 1)).astype(np.int64)

    def rows_by_client(self, client_count: int) -> tuple[OffsetArray, OffsetArray]:
        """Return (start, rows): client c has the member rows rows[start[c]:start[c + 1]]."""
        counts = np.bincount(self.client, minlength=client_count)
        start = np.zeros(client_count + 1, dtype=np.int64)
        np.cumsum(counts, out=start[1:])
        rows = np.argsort(self.client, kind="stable").astype(np.int64)
        return start, rows


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A planning problem as its user states it; validated by ``domain.validation``."""

    settings: ScenarioSettings
    servers: Servers
    clients: Clients
    topics: Topics
    members: Members
    client_server_ms: FloatArray | None = None
    """Measured delays [client, server], used instead of geometry."""
    server_server_ms: FloatArray | None = None
    """Measured delays [from, to], used instead of geometry; the diagonal is 0."""

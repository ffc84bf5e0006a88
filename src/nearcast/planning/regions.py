"""Regions: K-means clusters of the servers; a client is only ever at home in the nearest one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray, Scenario, Servers
from nearcast.geo.distance import distance_km, nearest

__all__ = ["RegionCentres", "Regions", "divide_into_regions", "find_centres"]

_FEWEST_STARTS, _MOST_STARTS = 4, 20
_SERVERS_STARTED = 4_000
"""Servers times starts: many servers make a bad start unlikely, and each start costly."""
_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The field divided among groups of servers, numbered by their lowest server."""

    server_region: IndexArray
    client_region: IndexArray
    start: OffsetArray
    """Region k has the servers servers[start[k]:start[k + 1]]."""
    servers: IndexArray
    """Servers by region, in ascending order within a region."""

    @property
    def count(self) -> int:
        """Number of regions; each has a server."""
        return len(self.start) - 1


@dataclass(frozen=True, slots=True, eq=False)
class RegionCentres:
    """Groups of servers and where their middles are; all it takes to find a client's region."""

    server_region: IndexArray
    x_km: FloatArray
    y_km: FloatArray

    def nearest(self, x_km: FloatArray, y_km: FloatArray) -> IndexArray:
        """Return the region of each place: the one with the nearest centre."""
        _, found = nearest(x_km, y_km, self.x_km, self.y_km, 1)
        return np.ascontiguousarray(found[:, 0])

    def regions(self, client_region: IndexArray) -> Regions:
        """Return the regions, given those of all clients."""
        size = np.bincount(self.server_region)
        return Regions(
            server_region=self.server_region,
            client_region=client_region,
            start=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
            servers=np.argsort(self.server_region, kind="stable").astype(np.int32),
        )


def divide_into_regions(scenario: Scenario, count: int, seed: int) -> Regions:
    """Return `count` regions (fewer if there are fewer server places), the same for a seed.

    Line 17 of Algorithm 1 (2021), line 1 of Algorithm 1 (2020): K-means of the server
    positions; a client belongs to the region with the nearest centre. Measured delays do not
    matter here: a centre has a position only.
    """
    centres = find_centres(scenario.servers, count, seed)
    return centres.regions(centres.nearest(scenario.clients.x_km, scenario.clients.y_km))


def find_centres(servers: Servers, count: int, seed: int) -> RegionCentres:
    """Return the groups of `divide_into_regions` and their centres."""
    place_km = np.column_stack([servers.x_km, servers.y_km])
    cluster = _k_means(place_km, min(count, len(servers)), np.random.default_rng(seed))
    # Number the clusters by their lowest server, and drop those that stayed empty.
    _, first, compact = np.unique(cluster, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    server_region = rank[compact]
    size = np.bincount(server_region)
    return RegionCentres(
        server_region=server_region,
        x_km=np.bincount(server_region, servers.x_km) / size,
        y_km=np.bincount(server_region, servers.y_km) / size,
    )


def _k_means(place_km: FloatArray, count: int, rng: np.random.Generator) -> IndexArray:
    """Return the cluster of each place: the best of several starts by summed squared distance."""
    if count == len(place_km):
        return np.arange(count, dtype=np.int32)
    best, best_cost = np.zeros(len(place_km), dtype=np.int32), np.inf
    starts = min(max(_SERVERS_STARTED // len(place_km), _FEWEST_STARTS), _MOST_STARTS)
    for _ in range(starts if count > 1 else 1):
        cluster, cost = _lloyd(place_km, _spread_start(place_km, count, rng))
        if cost < best_cost - 1e-9:
            best, best_cost = cluster, cost
    return best


def _spread_start(place_km: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return start centres drawn as k-means++ does: far from those drawn before."""
    chosen = [int(rng.integers(len(place_km)))]
    squared = np.full(len(place_km), np.inf)
    while len(chosen) < count:
        last = place_km[chosen[-1]]
        squared = np.minimum(squared, ((place_km - last) ** 2).sum(axis=1))
        upto = np.cumsum(squared)
        if upto[-1] <= 0:
            break
        chosen.append(int(np.searchsorted(upto, rng.random() * upto[-1], side="right")))
    return place_km[chosen]


def _lloyd(place_km: FloatArray, centre_km: FloatArray) -> tuple[IndexArray, float]:
    """Return clusters and their summed squared distance after Lloyd's rounds."""
    x_km, y_km = place_km[:, 0], place_km[:, 1]
    cluster = np.full(len(place_km), -1, dtype=np.int32)
    for _ in range(_MOST_ROUNDS):
        km, found = nearest(x_km, y_km, centre_km[:, 0].copy(), centre_km[:, 1].copy(), 1)
        if np.array_equal(found[:, 0], cluster):
            break
        cluster = found[:, 0]
        size = np.bincount(cluster, minlength=len(centre_km))
        total = [np.bincount(cluster, axis, len(centre_km)) for axis in (x_km, y_km)]
        centre_km = np.column_stack(total) / np.maximum(size, 1)[:, None]
        # An empty cluster starts anew at a server that is far from its own centre.
        empty = np.flatnonzero(size == 0)
        centre_km[empty] = place_km[np.argsort(-km[:, 0], kind="stable")[: len(empty)]]
    centre = centre_km[cluster]
    return cluster, float((distance_km(x_km, y_km, centre[:, 0], centre[:, 1]) ** 2).sum())

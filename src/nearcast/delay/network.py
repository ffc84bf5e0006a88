"""Delays between clients, servers and cloud: from geometry, or measured where given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.domain.scenario import FloatArray, IndexArray, Scenario
from nearcast.geo.distance import distance_km, distance_matrix_km, nearest

__all__ = ["Network", "network_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """All that the models need to know of delays; array kernels take its fields."""

    client_x_km: FloatArray
    client_y_km: FloatArray
    server_x_km: FloatArray
    server_y_km: FloatArray
    ms_per_km: float
    cloud_ms: float
    server_server_ms: FloatArray
    """[from, to], always present; may be asymmetric; the diagonal is 0."""
    client_server_ms: FloatArray
    """Measured delays [client, server], or shape (0, 0) when geometry holds.

    At a million clients the matrix would need 8 GB: geometry is computed where it is used.
    """
    has_geometry: bool
    """False when any delay was measured: the triangle inequality may not hold then."""

    @property
    def client_count(self) -> int:
        """Number of clients."""
        return len(self.client_x_km)

    @property
    def server_count(self) -> int:
        """Number of edge servers."""
        return len(self.server_x_km)

    def legs_ms(self, clients: IndexArray, servers: IndexArray) -> FloatArray:
        """Return the delay of each client to the server beside it (element by element)."""
        if self.client_server_ms.size:
            return self.client_server_ms[clients, servers]
        return self.ms_per_km * distance_km(
            self.client_x_km[clients],
            self.client_y_km[clients],
            self.server_x_km[servers],
            self.server_y_km[servers],
        )

    def home_legs_ms(self, homes: IndexArray) -> FloatArray:
        """Return every client's delay to its home."""
        return self.legs_ms(np.arange(self.client_count, dtype=np.int32), homes)

    def leg_matrix_ms(self, clients: IndexArray | None = None) -> FloatArray:
        """Return the delays [client, server] of some clients (default: of all)."""
        if self.client_server_ms.size:
            return self.client_server_ms if clients is None else self.client_server_ms[clients]
        chosen = slice(None) if clients is None else clients
        return self.ms_per_km * distance_matrix_km(
            self.client_x_km[chosen], self.client_y_km[chosen], self.server_x_km, self.server_y_km
        )

    def nearest_servers(self, count: int) -> tuple[FloatArray, IndexArray]:
        """Return each client's `count` nearest servers by delay: delays and indices [client, rank]."""
        count = min(count, self.server_count)
        if self.client_server_ms.size:
            order = np.argsort(self.client_server_ms, axis=1, kind="stable")[:, :count]
            return np.take_along_axis(self.client_server_ms, order, axis=1), order.astype(np.int32)
        km, index = nearest(
            self.client_x_km, self.client_y_km, self.server_x_km, self.server_y_km, count
        )
        return self.ms_per_km * km, index


def network_of(scenario: Scenario) -> Network:
    """Return the delays of a scenario."""
    servers, clients = scenario.servers, scenario.clients
    gamma = scenario.settings.ms_per_km
    between = scenario.server_server_ms
    if between is None:
        between = gamma * distance_matrix_km(servers.x_km, servers.y_km, servers.x_km, servers.y_km)
    measured = scenario.client_server_ms
    return Network(
        client_x_km=clients.x_km,
        client_y_km=clients.y_km,
        server_x_km=servers.x_km,
        server_y_km=servers.y_km,
        ms_per_km=gamma,
        cloud_ms=scenario.settings.cloud_ms,
        server_server_ms=np.ascontiguousarray(between),
        client_server_ms=np.empty((0, 0)) if measured is None else np.ascontiguousarray(measured),
        has_geometry=scenario.server_server_ms is None and measured is None,
    )

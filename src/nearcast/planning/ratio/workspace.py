"""From a problem to the arrays of the search, in an order that caches like, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray
from nearcast.planning.ratio.state import SearchState

__all__ = ["Workspace", "workspace_of"]

_LARGEST_LEG_MATRIX = 4_000_000
"""Entries; beyond it legs are computed from coordinates where they are needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """A search state and the way back to the problem's own numbers."""

    state: SearchState
    client_order: OffsetArray
    """The problem's client of each of the search's clients."""
    deliveries: int

    def set_homes(self, homes: IndexArray) -> float:
        """Load a plan; return its summed cost in ms."""
        self.state.homes[:] = homes[self.client_order]
        return self.rebuild()

    def rebuild(self) -> float:
        """Compute every sum afresh, free of rounding errors; return the summed cost in ms."""
        from nearcast.planning.ratio.move_kernels import rebuild

        return float(rebuild(self.state))

    def mean_ms(self, cost: float) -> float:
        """Return a summed cost per delivery."""
        return cost / max(self.deliveries, 1)

    def nearest_homes(self) -> IndexArray:
        """Return each client's nearest server, in the problem's own numbers."""
        return self._in_problem_order(self.state.near[:, 0])

    def homes(self) -> IndexArray:
        """Return the plan in the problem's own numbers."""
        return self._in_problem_order(self.state.homes)

    def close_servers(self, closed: BoolArray, local_share: FloatArray) -> None:
        """Let nobody move to or away from some servers, whose local shares are known.

        What is at home there stays as it is, so the limits can be set to give these shares even
        if not all of it is in the problem.
        """
        state = self.state
        state.is_open[:] = ~closed
        full = closed & (local_share < 1)
        state.compute[closed] = np.inf
        state.storage[closed] = np.inf
        state.storage[full] = local_share[full] * state.storage_used[full]
        self.rebuild()

    def _in_problem_order(self, servers: IndexArray) -> IndexArray:
        homes = np.empty(len(self.client_order), dtype=np.int32)
        homes[self.client_order] = servers
        return homes


def workspace_of(
    problem: RatioProblem,
    kept_homes: IndexArray | None = None,
    price_ms: float = 0.0,
    near_servers: int = 8,
    near_for: BoolArray | None = None,
    kept_spools: tuple[IndexArray, IndexArray] | None = None,
    near: IndexArray | None = None,
) -> Workspace:
    """Return the arrays of the search, without a plan.

    Topics are sorted along a space-filling curve and clients by their first topic: a sweep
    over the clients then finds what it needs in the processor's cache. With `near_for` only
    these clients get to know their nearest servers, the others their kept home; `near` are
    nearest servers [client, rank] that are known. The spools in force are `kept_spools`
    (topics, servers), or what `kept_homes` implies.
    """
    network = problem.network
    topic_order = _topic_order(problem)
    topic_rank = _ranks(topic_order)
    used = np.flatnonzero(problem.publishes | problem.subscribes)
    topic = topic_rank[problem.member_topic[used]]
    first_topic = np.full(network.client_count, problem.topic_count, dtype=np.int32)
    np.minimum.at(first_topic, problem.member_client[used], topic)
    client_order = np.argsort(first_topic, kind="stable").astype(np.int64)
    client = _ranks(client_order)[problem.member_client[used]]
    by_client = np.lexsort((topic, client))
    by_topic = np.lexsort((client, topic))
    rows = used[by_client]
    kept_start, kept_server = _kept_spools(problem, topic_rank, kept_homes, kept_spools)
    if near is None:
        near = _near(problem, near_servers, near_for, kept_homes)
    from_ms = network.server_server_ms
    symmetric = np.array_equal(from_ms, from_ms.T)
    servers, count = network.server_count, len(used)
    state = SearchState(
        client_start=_starts(client, network.client_count),
        row_topic=topic[by_client],
        row_publishes=problem.publishes[rows].astype(np.uint8),
        row_subscribes=problem.subscribes[rows].astype(np.uint8),
        row_weight=problem.publish_weight[rows],
        topic_start=_starts(topic, problem.topic_count),
        topic_client=client[by_topic],
        spool=problem.spool[topic_order],
        storage=problem.storage.copy(),
        compute=problem.compute.copy(),
        leg_weight=problem.leg_weight[client_order],
        client_x_km=network.client_x_km[client_order],
        client_y_km=network.client_y_km[client_order],
        server_x_km=network.server_x_km,
        server_y_km=network.server_y_km,
        ms_per_km=network.ms_per_km,
        leg_ms=_leg_matrix(problem, client_order),
        from_ms=from_ms,
        to_ms=from_ms if symmetric else np.ascontiguousarray(from_ms.T),
        round_trip_ms=2 * network.cloud_ms,
        near=near[client_order],
        is_open=np.ones(servers, dtype=np.bool_),
        kept_start=kept_start,
        kept_server=kept_server,
        price_ms=price_ms if kept_homes is not None else 0.0,
        homes=np.zeros(network.client_count, dtype=np.int32),
        slot_count=np.zeros(problem.topic_count, dtype=np.int32),
        slot_server=np.zeros(count, dtype=np.int32),
        slot_publishers=np.zeros(count, dtype=np.int32),
        slot_subscribers=np.zeros(count, dtype=np.int32),
        slot_weight=np.zeros(count),
        storage_used=np.zeros(servers),
        compute_used=np.zeros(servers),
        deliveries=np.zeros(servers),
        between_ms=np.zeros(servers),
        local_share=np.ones(servers),
    )
    return Workspace(state, client_order, problem.deliveries)


def _ranks(order: OffsetArray) -> IndexArray:
    """Return the place of each number in an order."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def _starts(numbers: IndexArray, count: int) -> OffsetArray:
    """Return where each number's entries start once the array is sorted."""
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=start[1:])
    return start


def _near(
    problem: RatioProblem, count: int, chosen: BoolArray | None, otherwise: IndexArray | None
) -> IndexArray:
    """Return the nearest servers [client, rank] of the chosen clients."""
    network = problem.network
    if chosen is None or otherwise is None:
        return network.nearest_servers(count)[1]
    measured = network.client_server_ms
    some = replace(
        network,
        client_x_km=network.client_x_km[chosen],
        client_y_km=network.client_y_km[chosen],
        client_server_ms=measured[chosen] if measured.size else measured,
    )
    near = np.repeat(otherwise[:, None], min(count, network.server_count), axis=1)
    if chosen.any():
        near[chosen] = some.nearest_servers(count)[1]
    return near


def _leg_matrix(problem: RatioProblem, client_order: OffsetArray) -> FloatArray:
    network = problem.network
    if network.client_server_ms.size:
        return network.client_server_ms[client_order]
    if network.client_count * network.server_count <= _LARGEST_LEG_MATRIX:
        return network.leg_matrix_ms(client_order.astype(np.int32))
    return np.empty((0, 0))


def _topic_order(problem: RatioProblem) -> OffsetArray:
    """Return the topics along a Z-order curve through their members' centres."""
    network, topics = problem.network, problem.topic_count
    size = np.maximum(np.bincount(problem.member_topic, minlength=topics), 1)
    key = np.zeros(topics, dtype=np.int64)
    for axis, place_km in enumerate((network.client_x_km, network.client_y_km)):
        centre = np.bincount(problem.member_topic, place_km[problem.member_client], topics) / size
        low, high = centre.min(initial=np.inf), centre.max(initial=-np.inf)
        cell = ((centre - low) / max(high - low, 1e-12) * 1023).astype(np.int64)
        for bit in range(10):
            key |= ((cell >> bit) & 1) << (2 * bit + axis)
    return np.argsort(key, kind="stable").astype(np.int64)


def _kept_spools(
    problem: RatioProblem,
    topic_rank: IndexArray,
    kept_homes: IndexArray | None,
    kept_spools: tuple[IndexArray, IndexArray] | None,
) -> tuple[OffsetArray, IndexArray]:
    """Return the servers that hold a spool of each topic in the plan in force."""
    topics, servers = problem.topic_count, problem.network.server_count
    if kept_homes is None:
        return np.zeros(topics + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if kept_spools is None:
        rows = np.flatnonzero(problem.publishes)
        kept_spools = problem.member_topic[rows], kept_homes[problem.member_client[rows]]
    topic, server = kept_spools
    spools = np.unique(topic_rank[topic].astype(np.int64) * servers + server)
    start = np.searchsorted(spools, np.arange(topics + 1) * servers).astype(np.int64)
    return start, (spools % servers).astype(np.int32)

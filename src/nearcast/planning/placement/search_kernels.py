"""Moves of the placement search with incremental cost: homes and brokers; senders follow."""

from __future__ import annotations

import numpy as np
from numba import njit

from nearcast.domain.scenario import IndexArray
from nearcast.planning.placement.tables import PlacementState, PlacementTables

__all__ = [
    "apply_broker",
    "apply_home",
    "broker_delta",
    "home_delta",
    "rebuild",
    "senders",
]


@njit(cache=True, inline="always")
def _counted(tables: PlacementTables, delay_ms: float) -> float:
    """Return what a delay counts in the objective (D3: `delay_ms` is already minus beta)."""
    if tables.tie_ms > 0.0:
        return tables.tie_ms * max(delay_ms, 0.0) + delay_ms + tables.tie_base_ms
    if tables.excess_only and delay_ms < 0.0:
        return 0.0
    return delay_ms


@njit(cache=True)
def _edge_value(tables: PlacementTables, homes: IndexArray, p: int, server: int) -> float:
    base = tables.leg_ms[tables.client[p], server] + tables.offset_ms[tables.topic[p]]
    total = 0.0
    for k in range(tables.pair_start[p], tables.pair_start[p + 1]):
        c = tables.subscriber[k]
        middle = tables.between_ms[server, homes[c]] + tables.leg_ms[c, homes[c]]
        total += tables.weight[k] * _counted(tables, base + middle)
    return total


@njit(cache=True)
def _cloud_value(tables: PlacementTables, homes: IndexArray, p: int, server: int) -> float:
    if server < 0:
        return np.inf
    base = tables.leg_ms[tables.client[p], server] + tables.offset_ms[tables.topic[p]]
    base += tables.cloud_ms
    total = 0.0
    for k in range(tables.pair_start[p], tables.pair_start[p + 1]):
        c = tables.subscriber[k]
        total += tables.weight[k] * _counted(tables, base + tables.leg_ms[c, homes[c]])
    return total


@njit(cache=True)
def _cloud_server(
    tables: PlacementTables, state: PlacementState, p: int, opened: int, closed: int
) -> int:
    """Return the nearest server without a broker once `opened` and `closed` have changed."""
    n = tables.topic[p]
    for server in tables.by_leg[tables.client[p]]:
        if server == closed or (server != opened and not state.is_broker[n, server]):
            return int(server)
    return -1


@njit(cache=True)
def _least(state: PlacementState, n: int, p: int) -> float:
    best = float(state.cloud_value[p])
    for i in range(state.broker_count[n]):
        best = min(best, float(state.edge_value[p, state.brokers[n, i]]))
    return best


@njit(cache=True)
def rebuild(tables: PlacementTables, state: PlacementState) -> float:
    """Compute every value of a state from its homes and brokers; return the cost."""
    topics, servers = state.is_broker.shape
    state.used[:] = 0.0
    for n in range(topics):
        count = 0
        for server in range(servers):
            if state.is_broker[n, server]:
                state.brokers[n, count] = server
                count += 1
                state.used[server] += tables.spool[n]
        state.broker_count[n] = count
    cost = 0.0
    for p in range(len(tables.row)):
        for server in range(servers):
            state.edge_value[p, server] = _edge_value(tables, state.homes, p, server)
        state.cloud_at[p] = _cloud_server(tables, state, p, -1, -1)
        state.cloud_value[p] = _cloud_value(tables, state.homes, p, state.cloud_at[p])
        state.value[p] = _least(state, tables.topic[p], p)
        cost += state.value[p]
    return cost


@njit(cache=True)
def home_delta(tables: PlacementTables, state: PlacementState, c: int, to: int) -> float:
    """Return how the cost changes when client `c` receives at server `to`."""
    at = state.homes[c]
    leg_old, leg_new = tables.leg_ms[c, at], tables.leg_ms[c, to]
    delta = 0.0
    for i in range(tables.heard_start[c], tables.heard_start[c + 1]):
        k = tables.heard[i]
        p, weight = tables.publisher[k], tables.weight[k]
        n, sender = tables.topic[p], tables.client[p]
        best = np.inf
        for j in range(state.broker_count[n]):
            server = state.brokers[n, j]
            base = tables.leg_ms[sender, server] + tables.offset_ms[n]
            new = _counted(tables, base + tables.between_ms[server, to] + leg_new)
            old = _counted(tables, base + tables.between_ms[server, at] + leg_old)
            best = min(best, state.edge_value[p, server] + weight * (new - old))
        if state.cloud_at[p] >= 0:
            base = tables.leg_ms[sender, state.cloud_at[p]] + tables.offset_ms[n]
            base += tables.cloud_ms
            change = _counted(tables, base + leg_new) - _counted(tables, base + leg_old)
            best = min(best, state.cloud_value[p] + weight * change)
        delta += best - state.value[p]
    return delta


@njit(cache=True)
def apply_home(tables: PlacementTables, state: PlacementState, c: int, to: int) -> None:
    """Let client `c` receive at server `to`."""
    at = state.homes[c]
    leg_old, leg_new = tables.leg_ms[c, at], tables.leg_ms[c, to]
    state.homes[c] = to
    for i in range(tables.heard_start[c], tables.heard_start[c + 1]):
        k = tables.heard[i]
        p, weight = tables.publisher[k], tables.weight[k]
        n, sender = tables.topic[p], tables.client[p]
        for server in range(state.edge_value.shape[1]):
            base = tables.leg_ms[sender, server] + tables.offset_ms[n]
            new = _counted(tables, base + tables.between_ms[server, to] + leg_new)
            old = _counted(tables, base + tables.between_ms[server, at] + leg_old)
            state.edge_value[p, server] += weight * (new - old)
        if state.cloud_at[p] >= 0:
            base = tables.leg_ms[sender, state.cloud_at[p]] + tables.offset_ms[n]
            base += tables.cloud_ms
            change = _counted(tables, base + leg_new) - _counted(tables, base + leg_old)
            state.cloud_value[p] += weight * change
        state.value[p] = _least(state, n, p)


@njit(cache=True)
def broker_delta(
    tables: PlacementTables, state: PlacementState, n: int, opened: int, closed: int
) -> float:
    """Return how the cost changes when topic `n` gets a broker and loses one; -1: neither."""
    delta = 0.0
    for p in range(tables.topic_start[n], tables.topic_start[n + 1]):
        best = state.cloud_value[p]
        if (opened >= 0 and state.cloud_at[p] == opened) or closed >= 0:
            at = _cloud_server(tables, state, p, opened, closed)
            if at != state.cloud_at[p]:
                best = _cloud_value(tables, state.homes, p, at)
        for i in range(state.broker_count[n]):
            server = state.brokers[n, i]
            if server != closed:
                best = min(best, state.edge_value[p, server])
        if opened >= 0:
            best = min(best, state.edge_value[p, opened])
        delta += best - state.value[p]
    return delta


@njit(cache=True)
def apply_broker(
    tables: PlacementTables, state: PlacementState, n: int, opened: int, closed: int
) -> None:
    """Open and close brokers of topic `n`; -1: none."""
    if closed >= 0:
        state.is_broker[n, closed] = False
        state.used[closed] -= tables.spool[n]
        last = state.broker_count[n] - 1
        for i in range(last):
            if state.brokers[n, i] == closed:
                state.brokers[n, i] = state.brokers[n, last]
        state.broker_count[n] = last
    if opened >= 0:
        state.is_broker[n, opened] = True
        state.used[opened] += tables.spool[n]
        state.brokers[n, state.broker_count[n]] = opened
        state.broker_count[n] += 1
    for p in range(tables.topic_start[n], tables.topic_start[n + 1]):
        at = _cloud_server(tables, state, p, -1, -1)
        if at != state.cloud_at[p]:
            state.cloud_at[p] = at
            state.cloud_value[p] = _cloud_value(tables, state.homes, p, at)
        state.value[p] = _least(state, n, p)


@njit(cache=True)
def senders(tables: PlacementTables, state: PlacementState, publish: IndexArray) -> None:
    """Write the server that each publisher sends to into `publish` [member row]."""
    for p in range(len(tables.row)):
        n = tables.topic[p]
        best, at = state.cloud_value[p], state.cloud_at[p]
        for i in range(state.broker_count[n]):
            server = state.brokers[n, i]
            if state.edge_value[p, server] < best or at < 0:
                best, at = state.edge_value[p, server], server
        publish[tables.row[p]] = at

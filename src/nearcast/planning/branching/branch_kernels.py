"""Depth-first search over the homes of all clients, with a lower bound for every part.

Storage and compute in use only grow as homes are added, so local shares only fall: a partial
plan priced with its present shares is a lower bound of all its completions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray

__all__ = ["BranchTables", "cost_of", "explore", "improve"]


class BranchTables(NamedTuple):
    """A home problem; M1 and M2 are special cases."""

    leg_cost: FloatArray
    """[client, server], weighted."""
    cloud_price: FloatArray
    """What a client pays per delegated share of its home (M1)."""
    excess_price: FloatArray
    """What a client pays per client above its home's limit (M1)."""
    client_limit: FloatArray
    storage: FloatArray
    compute: FloatArray
    spool: FloatArray
    sent_start: OffsetArray
    sent_topic: IndexArray
    """Client c publishes sent_topic[sent_start[c]:sent_start[c + 1]]."""
    publisher: IndexArray
    """Client [pair] (M2)."""
    subscriber: IndexArray
    weight: FloatArray
    """[pair]."""
    between_ms: FloatArray
    cloud_ms: float
    """Both ways, 2 d^C."""


@njit(cache=True)
def _share(storage: float, compute: float, limits: tuple[float, float]) -> float:
    share = 1.0
    if storage > limits[0]:
        share = limits[0] / storage
    if compute > limits[1]:
        share = min(share, limits[1] / compute)
    return share


@njit(cache=True)
def _shares(tables: BranchTables, homes: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return (local share of a server once client c is there too [client, server], clients)."""
    clients, servers = tables.leg_cost.shape
    stored = np.zeros((len(tables.spool), servers), dtype=np.bool_)
    storage, compute, count = np.zeros(servers), np.zeros(servers), np.zeros(servers)
    for c in range(clients):
        if homes[c] >= 0:
            count[homes[c]] += 1
            for i in range(tables.sent_start[c], tables.sent_start[c + 1]):
                n = tables.sent_topic[i]
                compute[homes[c]] += tables.spool[n]
                if not stored[n, homes[c]]:
                    stored[n, homes[c]] = True
                    storage[homes[c]] += tables.spool[n]
    share = np.empty((clients, servers))
    for c in range(clients):
        for server in range(servers):
            more_storage = more_compute = 0.0
            if homes[c] < 0:
                for i in range(tables.sent_start[c], tables.sent_start[c + 1]):
                    n = tables.sent_topic[i]
                    more_compute += tables.spool[n]
                    if not stored[n, server]:
                        more_storage += tables.spool[n]
            share[c, server] = _share(
                storage[server] + more_storage,
                compute[server] + more_compute,
                (tables.storage[server], tables.compute[server]),
            )
    return share, count


@njit(cache=True)
def cost_of(tables: BranchTables, homes: IndexArray) -> float:
    """Return the cost of a plan, or a lower bound where homes are still open (-1)."""
    clients, servers = tables.leg_cost.shape
    share, count = _shares(tables, homes)
    whole = True
    own = np.zeros((clients, servers))
    for c in range(clients):
        whole &= homes[c] >= 0
        for server in range(servers):
            here = count[server] + (1 if homes[c] < 0 else 0)
            excess = max(here - tables.client_limit[server], 0.0)
            own[c, server] = (
                tables.leg_cost[c, server]
                + tables.cloud_price[c] * (1.0 - share[c, server])
                + tables.excess_price[c] * excess
            )
    total = 0.0
    for k in range(len(tables.weight)):
        p, s, weight = tables.publisher[k], tables.subscriber[k], tables.weight[k]
        at, to = homes[p], homes[s]
        if at >= 0 and to >= 0:
            total += weight * _middle(tables, share[p, at], tables.between_ms[at, to], whole)
        elif at >= 0:
            for server in range(servers):
                between = tables.between_ms[at, server]
                own[s, server] += weight * _middle(tables, share[p, at], between, False)
        else:
            for server in range(servers):
                between = tables.between_ms[server, to] if to >= 0 else 0.0
                own[p, server] += weight * _middle(tables, share[p, server], between, False)
    for c in range(clients):
        total += own[c, homes[c]] if homes[c] >= 0 else own[c].min()
    return total


@njit(cache=True, inline="always")
def _middle(tables: BranchTables, share: float, between_ms: float, final: bool) -> float:
    """Return the part between the servers, eq. (6); not final: its least for any lower share."""
    value = tables.cloud_ms * (1.0 - share) + share * between_ms
    return value if final else min(value, tables.cloud_ms)


@njit(cache=True)
def improve(tables: BranchTables, homes: IndexArray, c: int, cost: float) -> float:
    """Give one client its best home, the others staying; return the cost."""
    best = homes[c]
    for server in range(tables.leg_cost.shape[1]):
        homes[c] = server
        value = cost_of(tables, homes)
        if value < cost:
            cost, best = value, server
    homes[c] = best
    return cost


@njit(cache=True)
def explore(
    tables: BranchTables,
    order: IndexArray,
    homes: IndexArray,
    child_bound: FloatArray,
    child: OffsetArray,
    next_child: IndexArray,
    depth: int,
    best_homes: IndexArray,
    best_cost: float,
    slack: float,
    nodes: int,
) -> tuple[int, float, int]:
    """Expand up to `nodes` parts; return (depth, best cost, nodes left); depth -1: all is done.

    The state of the search lies in the arrays: children of the part at each depth, cheapest
    first, with their bounds, and which comes next (-1: not expanded yet).
    """
    clients, servers = tables.leg_cost.shape
    while depth >= 0 and nodes > 0:
        c = order[depth]
        if next_child[depth] < 0:
            for server in range(servers):
                homes[c] = server
                child_bound[depth, server] = cost_of(tables, homes)
            child[depth] = np.argsort(child_bound[depth])
            next_child[depth] = 0
            nodes -= 1
        rank = next_child[depth]
        if rank == servers or child_bound[depth, child[depth, rank]] >= best_cost - slack:
            homes[c], next_child[depth] = -1, -1
            depth -= 1
            continue
        homes[c] = child[depth, rank]
        next_child[depth] += 1
        if depth == clients - 1:
            best_cost = child_bound[depth, homes[c]]
            best_homes[:] = homes
        else:
            depth += 1
    return depth, best_cost, nodes

"""Simulated annealing over homes and brokers of the placement model."""

from __future__ import annotations

import numpy as np
from numba import njit

from nearcast.domain.scenario import BoolArray, IndexArray
from nearcast.planning.placement.search_kernels import (
    apply_broker,
    apply_home,
    broker_delta,
    home_delta,
)
from nearcast.planning.placement.tables import PlacementState, PlacementTables

__all__ = ["anneal", "descend", "typical_rise"]

_HOME_SHARE = 0.5
"""Share of the proposals that move a home; the others move brokers."""
_NEAR = 8
"""A home is proposed among this many nearest servers, or where a publisher heard sends."""
_MOST_CHANGES = 6
"""Topics that one proposal may touch."""


@njit(cache=True)
def _fits(tables: PlacementTables, used: float, server: int) -> bool:
    limit = tables.storage[server]
    return bool(used <= limit + 1e-9 * (1.0 + limit))


@njit(cache=True)
def _home_proposal(
    tables: PlacementTables, state: PlacementState, rng: np.random.Generator, c: int
) -> int:
    """Return a server for client `c`: near it, or a broker of a topic that it hears."""
    heard = tables.heard_start[c + 1] - tables.heard_start[c]
    if rng.random() < 0.5:
        k = tables.heard[tables.heard_start[c] + int(rng.random() * heard)]
        n = tables.topic[tables.publisher[k]]
        count = state.broker_count[n]
        if count > 0:
            return int(state.brokers[n, int(rng.random() * count)])
    near = min(_NEAR, tables.by_leg.shape[1])
    return int(tables.by_leg[c, int(rng.random() * near)])


@njit(cache=True)
def _make_room(
    tables: PlacementTables,
    state: PlacementState,
    rng: np.random.Generator,
    server: int,
    changes: IndexArray,
    count: int,
) -> int:
    """Add the closing of random brokers to `changes` until `server` holds; -1: it cannot."""
    used = state.used[server]
    for i in range(count):
        if changes[i, 1] == server:
            used += tables.spool[changes[i, 0]]
        if changes[i, 2] == server:
            used -= tables.spool[changes[i, 0]]
    topics = len(state.broker_count)
    start = int(rng.random() * topics)
    for step in range(topics):
        if _fits(tables, used, server):
            return count
        n = (start + step) % topics
        touched = False
        for i in range(count):
            touched |= changes[i, 0] == n
        if touched or not state.is_broker[n, server]:
            continue
        if count == len(changes):
            return -1
        changes[count, 0], changes[count, 1], changes[count, 2] = n, -1, server
        used -= tables.spool[n]
        count += 1
    return count if _fits(tables, used, server) else -1


@njit(cache=True)
def _broker_proposal(
    tables: PlacementTables,
    state: PlacementState,
    rng: np.random.Generator,
    changes: IndexArray,
) -> int:
    """Write rows (topic, opened, closed) of a random change; return their number, -1: none."""
    topics, servers = state.is_broker.shape
    n, server = int(rng.random() * topics), int(rng.random() * servers)
    kind = rng.random()
    if state.is_broker[n, server]:
        changes[0, 0], changes[0, 1], changes[0, 2] = n, -1, server
        if kind < 0.3:
            return 1
        other = int(rng.random() * topics)
        if other == n or state.is_broker[other, server]:
            return -1
        changes[1, 0], changes[1, 1], changes[1, 2] = other, server, -1
        if kind > 0.6 and state.broker_count[other] > 0:
            old = state.brokers[other, int(rng.random() * state.broker_count[other])]
            changes[1, 2] = old
            if not state.is_broker[n, old]:
                changes[0, 1] = old
                return _make_room(
                    tables,
                    state,
                    rng,
                    old,
                    changes,
                    _make_room(tables, state, rng, server, changes, 2),
                )
        return _make_room(tables, state, rng, server, changes, 2)
    changes[0, 0], changes[0, 1], changes[0, 2] = n, server, -1
    if kind < 0.5 and state.broker_count[n] > 0:
        changes[0, 2] = state.brokers[n, int(rng.random() * state.broker_count[n])]
    return _make_room(tables, state, rng, server, changes, 1)


@njit(cache=True)
def _changes_delta(
    tables: PlacementTables, state: PlacementState, changes: IndexArray, count: int
) -> float:
    delta = 0.0
    for i in range(count):
        delta += broker_delta(tables, state, changes[i, 0], changes[i, 1], changes[i, 2])
    return delta


@njit(cache=True)
def anneal(
    tables: PlacementTables,
    state: PlacementState,
    rng: np.random.Generator,
    cost: float,
    hot: float,
    cold: float,
    fraction: tuple[float, float],
    proposals: int,
    best_homes: IndexArray,
    best_brokers: BoolArray,
    best_cost: float,
) -> tuple[float, float, int]:
    """Make proposals while the temperature falls; return (cost, best cost, moves).

    `fraction` is the part of the cooling from `hot` to `cold` that these proposals cover.
    """
    changes = np.empty((_MOST_CHANGES, 3), dtype=np.int32)
    clients, moves, temperature = len(state.homes), 0, hot
    for step in range(proposals):
        if step % 64 == 0:
            done = fraction[0] + (fraction[1] - fraction[0]) * step / proposals
            temperature = hot * (cold / hot) ** done
        threshold = -temperature * np.log(1.0 - rng.random())
        if rng.random() < _HOME_SHARE:
            c = int(rng.random() * clients)
            if tables.heard_start[c] == tables.heard_start[c + 1]:
                continue
            to = _home_proposal(tables, state, rng, c)
            if to == state.homes[c]:
                continue
            delta = home_delta(tables, state, c, to)
            if delta > threshold:
                continue
            apply_home(tables, state, c, to)
        else:
            count = _broker_proposal(tables, state, rng, changes)
            if count < 0:
                continue
            delta = _changes_delta(tables, state, changes, count)
            if delta > threshold:
                continue
            for i in range(count):
                apply_broker(tables, state, changes[i, 0], changes[i, 1], changes[i, 2])
        moves += 1
        cost += delta
        if cost < best_cost - 1e-9:
            best_cost = cost
            best_homes[:] = state.homes
            best_brokers[:] = state.is_broker
    return cost, best_cost, moves


@njit(cache=True)
def descend(tables: PlacementTables, state: PlacementState, rounds: int) -> int:
    """Take improving homes and new brokers until there is none; return the moves made."""
    topics, servers = state.is_broker.shape
    moves = 0
    for _ in range(rounds):
        before = moves
        for c in range(len(state.homes)):
            best, to = -1e-9, -1
            for server in range(servers):
                if server != state.homes[c]:
                    delta = home_delta(tables, state, c, server)
                    if delta < best:
                        best, to = delta, server
            if to >= 0:
                apply_home(tables, state, c, to)
                moves += 1
        for n in range(topics):
            for server in range(servers):
                if not state.is_broker[n, server] and _fits(
                    tables, state.used[server] + tables.spool[n], server
                ):
                    if broker_delta(tables, state, n, server, -1) < -1e-9:
                        apply_broker(tables, state, n, server, -1)
                        moves += 1
                elif state.is_broker[n, server] and (
                    broker_delta(tables, state, n, -1, server) < -1e-9
                ):
                    apply_broker(tables, state, n, -1, server)
                    moves += 1
        if moves == before:
            break
    return moves


@njit(cache=True)
def typical_rise(
    tables: PlacementTables, state: PlacementState, rng: np.random.Generator, proposals: int
) -> float:
    """Return the mean rise of random proposals that make the plan worse: a temperature scale."""
    total, count = 0.0, 0
    for _ in range(proposals):
        c = int(rng.random() * len(state.homes))
        delta = 0.0
        if tables.heard_start[c] < tables.heard_start[c + 1]:
            delta = home_delta(tables, state, c, _home_proposal(tables, state, rng, c))
        if delta > 1e-9:
            total += delta
            count += 1
    return total / count if count else 0.0

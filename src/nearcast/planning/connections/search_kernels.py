"""The hot loops of the M1 search: homes with the cost kept up to date, annealing, descent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray

__all__ = ["Field", "Load", "anneal", "descend", "load_of", "sum_ms"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TOPIC_MOVE, _ANY_SERVER = 0.01, 0.03
"""Share of the proposals that move a topic's publishers together, or go anywhere at all."""


class Field(NamedTuple):
    """What stays the same: the problem in the form that the loops read."""

    leg_ms: FloatArray
    """Measured delays [client, server], or shape (0, 0): geometry holds."""
    client_km: FloatArray
    """[client, 2]"""
    server_km: FloatArray
    ms_per_km: float
    cloud_ms: float
    beta_ms: float
    weight: FloatArray
    spool: FloatArray
    storage: FloatArray
    client_limit: FloatArray
    publisher_start: OffsetArray
    """Publishers of topic n: publisher[publisher_start[n]:publisher_start[n + 1]]."""
    publisher: IndexArray
    target_start: OffsetArray
    """Topics that client c publishes to: target[target_start[c]:target_start[c + 1]]."""
    target: IndexArray
    client_spool: FloatArray
    """Sum of the spools of these topics [client]."""
    near: IndexArray
    """Nearest servers [client, rank]."""
    near_ms: FloatArray


class Load(NamedTuple):
    """What a move changes."""

    homes: IndexArray
    clients: FloatArray
    """Clients at home [server]."""
    weight: FloatArray
    """Sum of their weights [server]."""
    storage: FloatArray
    """Storage used [server]."""
    slots: OffsetArray
    """Servers in use [topic]; they stand from publisher_start[topic] on in the next two."""
    slot_server: IndexArray
    slot_count: IndexArray
    """Publishers of the topic at home on slot_server."""


@njit(cache=True, inline="always")
def _random(rng: npt.NDArray[np.uint64]) -> float:
    """Return a float in [0, 1) of the SplitMix64 stream."""
    rng[0] += _GOLDEN
    z = rng[0]
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return float((z ^ (z >> _31)) >> _11) * 2.0**-53


@njit(cache=True, inline="always")
def _leg_ms(field: Field, client: int, server: int) -> float:
    if field.leg_ms.size:
        return float(field.leg_ms[client, server])
    dx = field.client_km[client, 0] - field.server_km[server, 0]
    dy = field.client_km[client, 1] - field.server_km[server, 1]
    return float(field.ms_per_km * np.sqrt(dx * dx + dy * dy))


@njit(cache=True, inline="always")
def _penalty_ms(field: Field, server: int, clients: float, weight: float, storage: float) -> float:
    """Return what excess and delegation cost all clients of a server, eqs. (4)-(6)."""
    cost = 0.0
    if clients > field.client_limit[server]:
        cost = field.beta_ms * (clients - field.client_limit[server])
    if storage > field.storage[server]:
        cost += field.cloud_ms * (1.0 - field.storage[server] / storage)
    return weight * cost


@njit(cache=True, inline="always")
def _penalty_change_ms(
    field: Field, load: Load, server: int, clients: float, weight: float, storage: float
) -> float:
    """Return how the penalty of a server changes with these changes of its load."""
    n, w, u = load.clients[server], load.weight[server], load.storage[server]
    after = _penalty_ms(field, server, n + clients, w + weight, u + storage)
    return after - _penalty_ms(field, server, n, w, u)


@njit(cache=True, inline="always")
def _find_slot(field: Field, load: Load, topic: int, server: int) -> int:
    """Return the slot of (topic, server), or -1."""
    begin = field.publisher_start[topic]
    for slot in range(begin, begin + load.slots[topic]):
        if load.slot_server[slot] == server:
            return slot
    return -1


@njit(cache=True)
def _move_ms(field: Field, load: Load, client: int, to: int, limit_ms: float) -> float:
    """Return what Y gains or loses when a client moves to another server.

    Above the limit a smaller value may be returned, still above the limit: as if the client
    freed all its spools here and needed none there. Most proposals end so, without a search
    for slots.
    """
    here, w = load.homes[client], field.weight[client]
    legs = w * (_leg_ms(field, client, to) - _leg_ms(field, client, here))
    most = min(field.client_spool[client], load.storage[here])
    at_least = legs + _penalty_change_ms(field, load, here, -1.0, -w, -most)
    at_least += _penalty_change_ms(field, load, to, 1.0, w, 0.0)
    if at_least > limit_ms:
        return float(at_least)
    freed = taken = 0.0
    for at in range(field.target_start[client], field.target_start[client + 1]):
        topic = field.target[at]
        if load.slot_count[_find_slot(field, load, topic, here)] == 1:
            freed += field.spool[topic]
        if _find_slot(field, load, topic, to) < 0:
            taken += field.spool[topic]
    delta = legs + _penalty_change_ms(field, load, here, -1.0, -w, -freed)
    return float(delta + _penalty_change_ms(field, load, to, 1.0, w, taken))


@njit(cache=True)
def _apply(field: Field, load: Load, client: int, to: int) -> None:
    """Move a client."""
    here, w = load.homes[client], field.weight[client]
    for at in range(field.target_start[client], field.target_start[client + 1]):
        topic = field.target[at]
        slot = _find_slot(field, load, topic, here)
        load.slot_count[slot] -= 1
        if load.slot_count[slot] == 0:
            load.slots[topic] -= 1
            last = field.publisher_start[topic] + load.slots[topic]
            load.slot_server[slot] = load.slot_server[last]
            load.slot_count[slot] = load.slot_count[last]
            load.storage[here] -= field.spool[topic]
        _enter(field, load, topic, to)
    load.clients[here] -= 1.0
    load.clients[to] += 1.0
    load.weight[here] -= w
    load.weight[to] += w
    load.homes[client] = to


@njit(cache=True)
def _enter(field: Field, load: Load, topic: int, server: int) -> None:
    """Count one more publisher of a topic at a server."""
    slot = _find_slot(field, load, topic, server)
    if slot < 0:
        slot = field.publisher_start[topic] + load.slots[topic]
        load.slots[topic] += 1
        load.slot_server[slot] = server
        load.slot_count[slot] = 0
        load.storage[server] += field.spool[topic]
    load.slot_count[slot] += 1


@njit(cache=True)
def load_of(field: Field, homes: IndexArray) -> Load:
    """Return the load of an assignment; it owns a copy of the homes."""
    servers = len(field.storage)
    load = Load(
        homes.copy(),
        np.zeros(servers),
        np.zeros(servers),
        np.zeros(servers),
        np.zeros(len(field.spool), np.int64),
        np.zeros(len(field.publisher), np.int32),
        np.zeros(len(field.publisher), np.int32),
    )
    for client in range(len(homes)):
        home = homes[client]
        load.clients[home] += 1.0
        load.weight[home] += field.weight[client]
        for at in range(field.target_start[client], field.target_start[client + 1]):
            _enter(field, load, field.target[at], home)
    return load


@njit(cache=True)
def sum_ms(field: Field, load: Load) -> float:
    """Return Y."""
    total = 0.0
    for client in range(len(load.homes)):
        total += field.weight[client] * _leg_ms(field, client, load.homes[client])
    for server in range(len(field.storage)):
        total += _penalty_ms(
            field, server, load.clients[server], load.weight[server], load.storage[server]
        )
    return total


@njit(cache=True)
def _proposed_server(field: Field, load: Load, client: int, rng: npt.NDArray[np.uint64]) -> int:
    """Return a near server, one that a topic of the client uses, or any."""
    kind = _random(rng)
    if kind < _ANY_SERVER:
        return int(_random(rng) * len(field.storage))
    first, end = field.target_start[client], field.target_start[client + 1]
    if kind < 0.5 or first == end:
        return int(field.near[client, int(_random(rng) * field.near.shape[1])])
    topic = field.target[first + int(_random(rng) * (end - first))]
    slot = field.publisher_start[topic] + int(_random(rng) * load.slots[topic])
    return int(load.slot_server[slot])


@njit(cache=True)
def _move_together(
    field: Field, load: Load, client: int, to: int, limit_ms: float, rng: npt.NDArray[np.uint64]
) -> bool:
    """Move the client's neighbours in one of its topics too, unless that costs over the limit."""
    first, end = field.target_start[client], field.target_start[client + 1]
    if first == end:
        return False
    topic, here = field.target[first + int(_random(rng) * (end - first))], load.homes[client]
    begin, close = field.publisher_start[topic], field.publisher_start[topic + 1]
    delta, moved = 0.0, np.empty(close - begin, np.int32)
    count = 0
    for at in range(begin, close):
        other = field.publisher[at]
        if load.homes[other] == here:
            delta += _move_ms(field, load, other, to, np.inf)
            _apply(field, load, other, to)
            moved[count] = other
            count += 1
    if delta <= limit_ms:
        return True
    for at in range(count):
        _apply(field, load, moved[at], here)
    return False


@njit(cache=True)
def anneal(
    field: Field, load: Load, temperature_ms: float, steps: int, rng: npt.NDArray[np.uint64]
) -> int:
    """Propose `steps` moves at a temperature; return how many were made."""
    moves, clients = 0, len(load.homes)
    for _ in range(steps):
        client = int(_random(rng) * clients)
        to = _proposed_server(field, load, client, rng)
        if to == load.homes[client]:
            continue
        limit_ms = -temperature_ms * np.log(1.0 - _random(rng))
        if _random(rng) < _TOPIC_MOVE:
            moves += _move_together(field, load, client, to, limit_ms, rng)
        elif _move_ms(field, load, client, to, limit_ms) <= limit_ms:
            _apply(field, load, client, to)
            moves += 1
    return moves


@njit(cache=True)
def descend(field: Field, load: Load, least_ms: float) -> int:
    """Give every client its best server among the near and its topics'; return the moves."""
    moves = 0
    for client in range(len(load.homes)):
        best, best_ms = -1, -least_ms
        for rank in range(field.near.shape[1]):
            to = field.near[client, rank]
            if to != load.homes[client]:
                delta = _move_ms(field, load, client, to, best_ms)
                if delta < best_ms:
                    best, best_ms = to, delta
        for at in range(field.target_start[client], field.target_start[client + 1]):
            begin = field.publisher_start[field.target[at]]
            for slot in range(begin, begin + load.slots[field.target[at]]):
                to = load.slot_server[slot]
                if to != load.homes[client]:
                    delta = _move_ms(field, load, client, to, best_ms)
                    if delta < best_ms:
                        best, best_ms = to, delta
        if best >= 0:
            _apply(field, load, client, best)
            moves += 1
    return moves

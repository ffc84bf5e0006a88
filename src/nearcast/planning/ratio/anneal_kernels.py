"""Annealing and descent over the homes of M2: clients one by one, and groups of a topic."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from nearcast.planning.ratio.move_kernels import apply_move, move_delta
from nearcast.planning.ratio.state import SearchState

__all__ = ["anneal", "descend"]

_DRAWS = 4096
_EXPONENTIAL = -np.log((np.arange(_DRAWS) + 0.5) / _DRAWS)
"""Exponential variates: a move is taken when its cost is below temperature times one of them."""
_WINDOW = 1024
"""Clients among which a partner to swap with is sought: near ones in the sweep's order."""
_PARTNER_DRAWS = 8
_LOW_32 = np.uint64(0xFFFFFFFF)


@njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
def _next(rng):
    """Return 64 random bits (xorshift64*)."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return x * np.uint64(2685821657736338717)


@njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
def _below(bits, count):
    """Return a number below `count` from the upper 32 bits."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
def _target(s: SearchState, rng, client: int) -> int:
    """Return a server to try: near the client, or one that its topic uses."""
    bits = _next(rng)
    rows = s.client_start[client + 1] - s.client_start[client]
    if bits & np.uint64(1) and rows > 0:
        row = s.client_start[client]
        if rows > 1:
            row += _below(_next(rng), rows)
        n = s.row_topic[row]
        return s.slot_server[s.topic_start[n] + _below(bits, s.slot_count[n])]
    return s.near[client, _below(bits, s.near.shape[1])]


@njit(cache=True, _nrt=False, error_model="numpy")
def move_group(s: SearchState, topic: int, a: int, b: int):
    """Move a topic's members from a to b; return the change of the cost and how many moved.

    Those that moved become the first in the topic's list, so that `undo_group` finds them.
    """
    total, moved = 0.0, 0
    begin = s.topic_start[topic]
    for k in range(begin, s.topic_start[topic + 1]):
        client = s.topic_client[k]
        if s.homes[client] == a:
            total += move_delta(s, client, b)
            apply_move(s, client, b)
            s.topic_client[k] = s.topic_client[begin + moved]
            s.topic_client[begin + moved] = client
            moved += 1
    return total, moved


@njit(cache=True, _nrt=False, error_model="numpy")
def undo_group(s: SearchState, topic: int, moved: int, a: int) -> None:
    """Take back a `move_group` from a."""
    begin = s.topic_start[topic]
    for k in range(begin, begin + moved):
        apply_move(s, s.topic_client[k], a)


@njit(cache=True, _nrt=False, error_model="numpy")
def try_group(s: SearchState, topic: int, a: int, b: int, limit: float) -> float:
    """Move a topic's members from a to b if that costs less than limit; return the change."""
    total, moved = move_group(s, topic, a, b)
    if total < limit:
        return total
    undo_group(s, topic, moved, a)
    return 0.0


@njit(cache=True, _nrt=False, error_model="numpy")
def try_swap(s: SearchState, client: int, other: int, limit: float) -> float:
    """Exchange the homes of two clients if that costs less than limit; return the change."""
    a, b = s.homes[client], s.homes[other]
    total = move_delta(s, client, b)
    apply_move(s, client, b)
    total += move_delta(s, other, a)
    if total < limit:
        apply_move(s, other, a)
        return total
    apply_move(s, client, a)
    return 0.0


@njit(cache=True, _nrt=False, error_model="numpy")
def try_group_swap(s: SearchState, topic: int, other: int, a: int, b: int, limit: float) -> float:
    """Exchange two topics' groups on a and b if that costs less than limit; return the change."""
    there, moved = move_group(s, topic, a, b)
    back, returned = move_group(s, other, b, a)
    if there + back < limit:
        return there + back
    undo_group(s, other, returned, b)
    undo_group(s, topic, moved, a)
    return 0.0


@njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
def _partner(s: SearchState, rng, client: int, b: int) -> int:
    """Return a client at home on b to swap with, or -1 if a few draws find none."""
    clients = len(s.homes)
    window = min(clients, _WINDOW)
    first = min(max(client - window // 2, 0), clients - window)
    for _ in range(_PARTNER_DRAWS):
        other = first + _below(_next(rng), window)
        if s.homes[other] == b:
            return other
    return -1


@njit(cache=True, _nrt=False, error_model="numpy")
def anneal(s: SearchState, rng, sweeps: int, hot: float, cold: float, chances):
    """Anneal for some sweeps over the clients, the temperature falling from hot to cold.

    Returns (change of the summed cost, moves taken).
    """
    change, moves = 0.0, 0
    group_below = np.uint64(chances[0] * 2.0**32)
    swap_below = np.uint64((chances[0] + chances[1]) * 2.0**32)
    group_swap_below = np.uint64((chances[0] + chances[1] + chances[2]) * 2.0**32)
    clients = len(s.homes)
    for sweep in range(sweeps):
        temperature = hot * (cold / hot) ** (sweep / sweeps)
        for client in range(clients):
            bits = _next(rng)
            limit = temperature * _EXPONENTIAL[bits >> np.uint64(52)]
            b = _target(s, rng, client)
            a = s.homes[client]
            if a == b:
                continue
            kind = bits & _LOW_32
            delta = 0.0
            if kind >= group_swap_below:
                delta = move_delta(s, client, b)
                if delta < limit:
                    apply_move(s, client, b)
                else:
                    delta = 0.0
            elif kind < group_below:
                delta = try_group(s, s.row_topic[s.client_start[client]], a, b, limit)
            else:
                other = _partner(s, rng, client, b)
                if other < 0:
                    continue
                if kind < swap_below:
                    delta = try_swap(s, client, other, limit)
                else:
                    n = s.row_topic[s.client_start[client]]
                    m = s.row_topic[s.client_start[other]]
                    if n != m:
                        delta = try_group_swap(s, n, m, a, b, limit)
            change += delta
            moves += delta != 0.0
    return change, moves


@njit(cache=True, _nrt=False, error_model="numpy")
def best_target(s: SearchState, client: int):
    """Return (server, change) of the best single move of a client among its candidates."""
    best, best_delta = -1, 0.0
    for rank in range(s.near.shape[1]):
        b = s.near[client, rank]
        if b != s.homes[client]:
            delta = move_delta(s, client, b)
            if delta < best_delta:
                best, best_delta = b, delta
    for row in range(s.client_start[client], s.client_start[client + 1]):
        n = s.row_topic[row]
        for i in range(s.topic_start[n], s.topic_start[n] + s.slot_count[n]):
            b = s.slot_server[i]
            if b != s.homes[client]:
                delta = move_delta(s, client, b)
                if delta < best_delta:
                    best, best_delta = b, delta
    return best, best_delta


@njit(cache=True, _nrt=False, error_model="numpy")
def descend(s: SearchState, sweeps: int) -> float:
    """Take the best move of each client, sweep after sweep, until none helps; return the change."""
    total = 0.0
    for _ in range(sweeps):
        before = total
        for client in range(len(s.homes)):
            b, delta = best_target(s, client)
            if delta < -1e-9:
                apply_move(s, client, b)
                total += delta
        if total == before:
            break
    return total

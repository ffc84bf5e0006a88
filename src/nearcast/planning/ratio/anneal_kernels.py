"""Annealing and descent over the homes of M2: clients one by one, and groups of a topic."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import IndexArray
from nearcast.planning.ratio.move_kernels import apply_move, inlined, kernel, move_delta
from nearcast.planning.ratio.state import SearchState

__all__ = ["anneal", "descend", "descend_from"]

RandomState = npt.NDArray[np.uint64]
"""One number, not 0, that the generator moves on."""

Flags = npt.NDArray[np.bool_]
_LEAST_GAIN_MS = 1e-9
_DRAWS = 4096
_EXPONENTIAL = -np.log((np.arange(_DRAWS) + 0.5) / _DRAWS)
"""Exponential variates: a move is taken when its cost is below temperature times one of them."""
_WINDOW = 1024
"""Clients among which a partner to swap with is sought: near ones in the sweep's order."""
_PARTNER_DRAWS = 8
_LOW_32 = np.uint64(0xFFFFFFFF)


@inlined
def _next(rng: RandomState) -> np.uint64:
    """Return 64 random bits (xorshift64*)."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return np.uint64(x * np.uint64(2685821657736338717))


@inlined
def _below(bits: np.uint64, count: int) -> int:
    """Return a number below `count` from the upper 32 bits."""
    return int(((bits >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@inlined
def _topic_of(s: SearchState, rng: RandomState, client: int) -> int:
    """Return one of a client's topics."""
    row = s.client_start[client]
    rows = s.client_start[client + 1] - row
    if rows > 1:
        row += _below(_next(rng), rows)
    return int(s.row_topic[row])


@inlined
def _target(s: SearchState, rng: RandomState, client: int, topic: int) -> int:
    """Return a server to try: near the client, or one that its topic uses."""
    bits = _next(rng)
    if bits & np.uint64(1):
        return int(s.slot_server[s.topic_start[topic] + _below(bits, s.slot_count[topic])])
    return int(s.near[client, _below(bits, s.near.shape[1])])


@kernel
def move_group(s: SearchState, topic: int, a: int, b: int) -> tuple[float, int]:
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


@kernel
def undo_group(s: SearchState, topic: int, moved: int, a: int) -> None:
    """Take back a `move_group` from a."""
    begin = s.topic_start[topic]
    for k in range(begin, begin + moved):
        apply_move(s, s.topic_client[k], a)


@kernel
def try_group(s: SearchState, topic: int, a: int, b: int, limit: float) -> float:
    """Move a topic's members from a to b if that costs less than limit; return the change."""
    total, moved = move_group(s, topic, a, b)
    if total < limit:
        return float(total)
    undo_group(s, topic, moved, a)
    return 0.0


@kernel
def try_swap(s: SearchState, client: int, other: int, limit: float) -> float:
    """Exchange the homes of two clients if that costs less than limit; return the change."""
    a, b = s.homes[client], s.homes[other]
    total = move_delta(s, client, b)
    apply_move(s, client, b)
    total += move_delta(s, other, a)
    if total < limit:
        apply_move(s, other, a)
        return float(total)
    apply_move(s, client, a)
    return 0.0


@inlined
def _partner(s: SearchState, rng: RandomState, client: int, b: int) -> int:
    """Return a client at home on b to swap with, or -1 if a few draws find none."""
    clients = len(s.homes)
    window = min(clients, _WINDOW)
    first = min(max(client - window // 2, 0), clients - window)
    for _ in range(_PARTNER_DRAWS):
        other = first + _below(_next(rng), window)
        if s.homes[other] == b:
            return int(other)
    return -1


@kernel
def anneal(
    s: SearchState,
    rng: RandomState,
    clients: IndexArray,
    sweeps: int,
    hot: float,
    cold: float,
    group_chance: float,
    swap_chance: float,
) -> tuple[float, int]:
    """Anneal for some sweeps over some clients, the temperature falling from hot to cold.

    Every one of them must be in a topic and at home on an open server. Returns (change of the summed cost, moves taken).
    """
    change, moves = 0.0, 0
    group_below = np.uint64(group_chance * 2.0**32)
    swap_below = np.uint64((group_chance + swap_chance) * 2.0**32)
    for sweep in range(sweeps):
        temperature = hot * (cold / hot) ** (sweep / sweeps)
        for client in clients:
            bits = _next(rng)
            limit = temperature * _EXPONENTIAL[bits >> np.uint64(52)]
            topic = _topic_of(s, rng, client)
            b = _target(s, rng, client, topic)
            a = s.homes[client]
            if a == b or not s.is_open[b]:
                continue
            kind = bits & _LOW_32
            delta = 0.0
            if kind < group_below:
                delta = try_group(s, topic, a, b, limit)
            elif kind < swap_below and s.compute_used[b] + s.spool[topic] > s.compute[b]:
                other = _partner(s, rng, client, b)
                if other >= 0:
                    delta = try_swap(s, client, other, limit)
            else:
                delta = move_delta(s, client, b)
                if delta < limit:
                    apply_move(s, client, b)
                else:
                    delta = 0.0
            change += delta
            moves += delta != 0.0
    return change, moves


@kernel
def best_target(s: SearchState, client: int) -> tuple[int, float]:
    """Return (server, change) of the best single move of a client among its candidates."""
    best, best_delta = -1, 0.0
    if not s.is_open[s.homes[client]]:
        return best, best_delta
    for rank in range(s.near.shape[1]):
        b = s.near[client, rank]
        if b != s.homes[client] and s.is_open[b]:
            delta = move_delta(s, client, b)
            if delta < best_delta:
                best, best_delta = b, delta
    for row in range(s.client_start[client], s.client_start[client + 1]):
        n = s.row_topic[row]
        for i in range(s.topic_start[n], s.topic_start[n] + s.slot_count[n]):
            b = s.slot_server[i]
            if b != s.homes[client] and s.is_open[b]:
                delta = move_delta(s, client, b)
                if delta < best_delta:
                    best, best_delta = b, delta
    return best, best_delta


@kernel
def descend(s: SearchState) -> float:
    """Take the best move of each client in one sweep; return the change of the cost."""
    total = 0.0
    for client in range(len(s.homes)):
        b, delta = best_target(s, client)
        if delta < -_LEAST_GAIN_MS:
            apply_move(s, client, b)
            total += delta
    return total


@kernel
def descend_from(
    s: SearchState, queue: IndexArray, waiting: Flags, touched: Flags, count: int
) -> int:
    """Take the best moves of the clients in a queue, and of the topic neighbours of who moved.

    `queue` has room for every client and starts with `count` of them, marked in `waiting`;
    whoever is looked at is marked in `touched`. Returns the number of moves.
    """
    head, moves, room = 0, 0, len(queue)
    while count > 0:
        client = queue[head]
        head = (head + 1) % room
        count -= 1
        waiting[client] = False
        touched[client] = True
        b, delta = best_target(s, client)
        if delta >= -_LEAST_GAIN_MS:
            continue
        apply_move(s, client, b)
        moves += 1
        for row in range(s.client_start[client], s.client_start[client + 1]):
            n = s.row_topic[row]
            for k in range(s.topic_start[n], s.topic_start[n + 1]):
                other = s.topic_client[k]
                if not waiting[other]:
                    waiting[other] = True
                    queue[(head + count) % room] = other
                    count += 1
    return moves

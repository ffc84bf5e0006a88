"""The price of moving a client under M2, and the sums that a move changes.

With the client itself taken out, S subscribers and W publish weight at each server of a topic
(its slots), moving a client from a to b changes, for every topic it is in::

    between_a   by  - w * sum over slots l of S_l d(a, l)
    between_b   by  + w * sum over slots l of S_l d(b, l)
    between_l   by  W_l * (d(l, b) - d(l, a))     for every slot l, if it subscribes

and storage, compute and deliveries at a and b only, so a move touches the slots of the
client's topics: never the members, never all servers.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from nearcast.planning.ratio.state import SearchState

__all__ = [
    "apply_move",
    "inlined",
    "kernel",
    "leg_ms",
    "move_delta",
    "new_spools",
    "rebuild",
    "total_cost",
]

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}
"""No kernel allocates, so none needs numba's reference counting: with some forty arrays in the
state, counting made a move ten times slower."""
kernel = njit(**_OPTIONS)
inlined = njit(forceinline=True, **_OPTIONS)


@inlined
def leg_ms(s: SearchState, client: int, server: int) -> float:
    """Return the delay of a client to a server."""
    if s.leg_ms.size:
        return float(s.leg_ms[client, server])
    dx = s.client_x_km[client] - s.server_x_km[server]
    dy = s.client_y_km[client] - s.server_y_km[server]
    return float(s.ms_per_km * math.sqrt(dx * dx + dy * dy))


@inlined
def share_of(s: SearchState, server: int, storage_used: float, compute_used: float) -> float:
    """Return theta_l, eq. (2)."""
    share = 1.0
    if storage_used > s.storage[server]:
        share = s.storage[server] / storage_used
    if compute_used > s.compute[server]:
        share = min(share, s.compute[server] / compute_used)
    return share


@inlined
def is_kept(s: SearchState, topic: int, server: int) -> bool:
    """Return whether the plan in force has this spool."""
    for k in range(s.kept_start[topic], s.kept_start[topic + 1]):
        if s.kept_server[k] == server:
            return True
    return False


@inlined
def move_delta(s: SearchState, client: int, b: int) -> float:
    """Return the change of the summed cost when a client moves to server b."""
    a = s.homes[client]
    delta = s.leg_weight[client] * (leg_ms(s, client, b) - leg_ms(s, client, a))
    between_a, between_b = s.between_ms[a], s.between_ms[b]
    storage_a, storage_b = s.storage_used[a], s.storage_used[b]
    compute, deliveries = 0.0, 0.0
    for row in range(s.client_start[client], s.client_start[client + 1]):
        n, weight = s.row_topic[row], s.row_weight[row]
        subscribes = s.row_subscribes[row]
        begin = s.topic_start[n]
        last_at_a, first_at_b = True, True
        send_a, send_b = 0.0, 0.0
        for i in range(begin, begin + s.slot_count[n]):
            server = s.slot_server[i]
            here, subscribers = s.slot_weight[i], s.slot_subscribers[i]
            change = 0.0
            if server == a:
                here -= weight
                subscribers -= subscribes
                between_a += subscribes * here * s.to_ms[b, a]
                last_at_a = s.slot_publishers[i] == 1
            elif server == b:
                between_b -= subscribes * here * s.to_ms[a, b]
                first_at_b = s.slot_publishers[i] == 0
            else:
                change = here * (s.to_ms[b, server] - s.to_ms[a, server])
                delta += subscribes * change * s.local_share[server]
            send_a += subscribers * s.from_ms[a, server]
            send_b += subscribers * s.from_ms[b, server]
        if s.row_publishes[row]:
            between_a -= weight * send_a
            between_b += weight * send_b
            compute += s.spool[n]
            deliveries += weight > 0
            if last_at_a:
                storage_a -= s.spool[n]
            if first_at_b:
                storage_b += s.spool[n]
            if s.price_ms > 0:
                if last_at_a and not is_kept(s, n, a):
                    delta -= s.price_ms
                if first_at_b and not is_kept(s, n, b):
                    delta += s.price_ms
    old_a, old_b = s.local_share[a], s.local_share[b]
    new_a = share_of(s, a, storage_a, s.compute_used[a] - compute)
    new_b = share_of(s, b, storage_b, s.compute_used[b] + compute)
    cloud = s.round_trip_ms
    at_a, at_b = s.deliveries[a], s.deliveries[b]
    delta += cloud * ((at_a - deliveries) * (1 - new_a) - at_a * (1 - old_a))
    delta += cloud * ((at_b + deliveries) * (1 - new_b) - at_b * (1 - old_b))
    delta += new_a * between_a - old_a * s.between_ms[a]
    delta += new_b * between_b - old_b * s.between_ms[b]
    return float(delta)


@kernel
def apply_move(s: SearchState, client: int, b: int) -> None:
    """Move a client to server b (not its home) and bring every sum up to date."""
    a = s.homes[client]
    for row in range(s.client_start[client], s.client_start[client + 1]):
        n, weight = s.row_topic[row], s.row_weight[row]
        subscribes, publishes = s.row_subscribes[row], s.row_publishes[row]
        begin = s.topic_start[n]
        end = begin + s.slot_count[n]
        at_a, at_b = -1, -1
        for i in range(begin, end):
            server = s.slot_server[i]
            here, subscribers = s.slot_weight[i], s.slot_subscribers[i]
            if server == a:
                at_a = i
                here -= weight
                subscribers -= subscribes
            elif server == b:
                at_b = i
            if subscribes:
                s.between_ms[server] += here * (s.to_ms[b, server] - s.to_ms[a, server])
            s.between_ms[a] -= weight * subscribers * s.from_ms[a, server]
            s.between_ms[b] += weight * subscribers * s.from_ms[b, server]
        if publishes:
            if s.slot_publishers[at_a] == 1:
                s.storage_used[a] -= s.spool[n]
            if at_b < 0 or s.slot_publishers[at_b] == 0:
                s.storage_used[b] += s.spool[n]
            s.compute_used[a] -= s.spool[n]
            s.compute_used[b] += s.spool[n]
            s.deliveries[a] -= weight > 0
            s.deliveries[b] += weight > 0
        s.slot_publishers[at_a] -= publishes
        s.slot_subscribers[at_a] -= subscribes
        s.slot_weight[at_a] = s.slot_weight[at_a] - weight if s.slot_publishers[at_a] else 0.0
        # An emptied slot goes before a new one comes: a topic has room for one per member only.
        if s.slot_publishers[at_a] == 0 and s.slot_subscribers[at_a] == 0:
            _remove_slot(s, n, at_a)
            if at_b == begin + s.slot_count[n]:
                at_b = at_a
        if at_b < 0:
            at_b = begin + s.slot_count[n]
            s.slot_server[at_b] = b
            s.slot_publishers[at_b] = 0
            s.slot_subscribers[at_b] = 0
            s.slot_weight[at_b] = 0.0
            s.slot_count[n] += 1
        s.slot_publishers[at_b] += publishes
        s.slot_subscribers[at_b] += subscribes
        s.slot_weight[at_b] += weight
    s.homes[client] = b
    s.local_share[a] = share_of(s, a, s.storage_used[a], s.compute_used[a])
    s.local_share[b] = share_of(s, b, s.storage_used[b], s.compute_used[b])


@inlined
def _remove_slot(s: SearchState, topic: int, slot: int) -> None:
    s.slot_count[topic] -= 1
    last = s.topic_start[topic] + s.slot_count[topic]
    s.slot_server[slot] = s.slot_server[last]
    s.slot_publishers[slot] = s.slot_publishers[last]
    s.slot_subscribers[slot] = s.slot_subscribers[last]
    s.slot_weight[slot] = s.slot_weight[last]


@kernel
def rebuild(s: SearchState) -> float:
    """Compute every sum from the homes alone; return the summed cost."""
    s.slot_count[:] = 0
    for client in range(len(s.homes)):
        for row in range(s.client_start[client], s.client_start[client + 1]):
            n, home = s.row_topic[row], s.homes[client]
            begin = s.topic_start[n]
            slot, end = begin, begin + s.slot_count[n]
            while slot < end and s.slot_server[slot] != home:
                slot += 1
            if slot == end:
                s.slot_server[slot] = home
                s.slot_publishers[slot] = 0
                s.slot_subscribers[slot] = 0
                s.slot_weight[slot] = 0.0
                s.slot_count[n] += 1
            s.slot_publishers[slot] += s.row_publishes[row]
            s.slot_subscribers[slot] += s.row_subscribes[row]
            s.slot_weight[slot] += s.row_weight[row]
    _rebuild_servers(s)
    return float(total_cost(s))


@kernel
def _rebuild_servers(s: SearchState) -> None:
    """Compute the servers' sums, eqs. (1) and (2), from the slots."""
    s.storage_used[:] = 0.0
    s.compute_used[:] = 0.0
    s.between_ms[:] = 0.0
    s.deliveries[:] = 0.0
    for client in range(len(s.homes)):
        for row in range(s.client_start[client], s.client_start[client + 1]):
            s.deliveries[s.homes[client]] += s.row_weight[row] > 0
    for n in range(len(s.slot_count)):
        begin, end = s.topic_start[n], s.topic_start[n] + s.slot_count[n]
        for i in range(begin, end):
            server = s.slot_server[i]
            if s.slot_publishers[i]:
                s.storage_used[server] += s.spool[n]
                s.compute_used[server] += s.spool[n] * s.slot_publishers[i]
            for j in range(begin, end):
                delay_ms = s.from_ms[server, s.slot_server[j]]
                s.between_ms[server] += s.slot_weight[i] * s.slot_subscribers[j] * delay_ms
    for server in range(len(s.storage)):
        s.local_share[server] = share_of(s, server, s.storage_used[server], s.compute_used[server])


@kernel
def total_cost(s: SearchState) -> float:
    """Return I * Y from the sums, plus the price of every spool that is new."""
    total = 0.0
    for client in range(len(s.homes)):
        total += s.leg_weight[client] * leg_ms(s, client, s.homes[client])
    for server in range(len(s.storage)):
        share = s.local_share[server]
        total += s.round_trip_ms * s.deliveries[server] * (1 - share)
        total += share * s.between_ms[server]
    return float(total + s.price_ms * new_spools(s))


@kernel
def new_spools(s: SearchState) -> int:
    """Return how many spools are not in the plan in force."""
    count = 0
    if len(s.kept_server):
        for n in range(len(s.slot_count)):
            for i in range(s.topic_start[n], s.topic_start[n] + s.slot_count[n]):
                count += s.slot_publishers[i] > 0 and not is_kept(s, n, s.slot_server[i])
    return count

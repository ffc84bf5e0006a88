"""Compiled loops of the bound over prices: shares of spools, changes of prices, loads.

Labels are those of `bound_pair_kernels`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray

__all__ = ["add_shared_spools", "change_prices", "soft_loads"]

_FAR = 1e30


@njit(cache=True)
def _need(potential: FloatArray, client: int, label: int) -> float:
    """Return how far a label lies below the best other label of its client."""
    least = _FAR
    for a in range(potential.shape[1]):
        if a != label and potential[client, a] < least:
            least = potential[client, a]
    return float(least - potential[client, label])


@njit(cache=True)
def add_shared_spools(
    potential: FloatArray,
    spool_share: FloatArray,
    topic_start: OffsetArray,
    member_client: IndexArray,
    publishes: BoolArray,
    server: IndexArray,
    near: int,
    storage_price: FloatArray,
    spool: FloatArray,
) -> None:
    """Split the price of each (topic, server) among the topic's publishers, by their need.

    `spool_share[row, label]` sums to storage_price * spool over a topic's rows, at most.
    """
    servers = len(storage_price)
    first_entry = np.full(servers, -1)
    most = 0
    for n in range(len(spool)):
        most = max(most, topic_start[n + 1] - topic_start[n])
    size = most * near
    next_entry, entry_row, entry_label = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    need = np.empty(size)
    seen = np.empty(size, np.int64)
    for n in range(len(spool)):
        entries, distinct = 0, 0
        for row in range(topic_start[n], topic_start[n + 1]):
            if not publishes[row]:
                continue
            for a in range(near):
                here = server[member_client[row], a]
                if storage_price[here] <= 0:
                    continue
                if first_entry[here] < 0:
                    seen[distinct] = here
                    distinct += 1
                entry_row[entries], entry_label[entries] = row, a
                next_entry[entries] = first_entry[here]
                first_entry[here] = entries
                entries += 1
        for k in range(distinct):
            here = seen[k]
            budget = storage_price[here] * spool[n]
            total, count = 0.0, 0
            e = first_entry[here]
            while e >= 0:
                row, a = entry_row[e], entry_label[e]
                client = member_client[row]
                potential[client, a] -= spool_share[row, a]
                need[e] = max(_need(potential, client, a), 0.0)
                total += need[e]
                count += 1
                e = next_entry[e]
            e = first_entry[here]
            while e >= 0:
                row, a = entry_row[e], entry_label[e]
                if total >= budget:
                    share = need[e] * (budget / total)
                else:
                    share = need[e] + (budget - total) / count
                spool_share[row, a] = share
                potential[member_client[row], a] += share
                e = next_entry[e]
            first_entry[here] = -1


@njit(cache=True)
def change_prices(
    potential: FloatArray,
    spool_share: FloatArray,
    client_start: OffsetArray,
    client_member: OffsetArray,
    member_topic: IndexArray,
    publishers: FloatArray,
    publishes: BoolArray,
    server: IndexArray,
    near: int,
    far: bool,
    load: FloatArray,
    spool: FloatArray,
    storage_price: FloatArray,
    compute_price: FloatArray,
    storage_new: FloatArray,
    compute_new: FloatArray,
) -> None:
    """Move the potentials and the shares of the spools to new prices."""
    far_change = compute_new.min() - compute_price.min()
    for client in range(len(load)):
        for a in range(near):
            here = server[client, a]
            change = load[client] * (compute_new[here] - compute_price[here])
            old, new = storage_price[here], storage_new[here]
            for k in range(client_start[client], client_start[client + 1]):
                row = client_member[k]
                if publishes[row] and old != new:
                    before = spool_share[row, a]
                    if old > 0:
                        spool_share[row, a] = before * (new / old)
                    else:
                        n = member_topic[row]
                        spool_share[row, a] = new * spool[n] / publishers[n]
                    change += spool_share[row, a] - before
            potential[client, a] += change
        if far:
            potential[client, near] += load[client] * far_change


@njit(cache=True)
def soft_loads(
    potential: FloatArray,
    topic_start: OffsetArray,
    member_client: IndexArray,
    publishes: BoolArray,
    server: IndexArray,
    near: int,
    spool: FloatArray,
    servers: int,
    softness: float,
) -> tuple[FloatArray, FloatArray]:
    """Return (storage, compute) used per server when clients choose labels by soft minimum."""
    clients, labels = potential.shape
    chance = np.empty((clients, near), dtype=np.float32)
    for client in range(clients):
        least = potential[client].min()
        total = 0.0
        for a in range(labels):
            x = np.exp((least - potential[client, a]) / softness)
            total += x
            if a < near:
                chance[client, a] = x
        for a in range(near):
            chance[client, a] /= total
    storage, compute = np.zeros(servers), np.zeros(servers)
    present = np.zeros(servers)
    for n in range(len(spool)):
        for row in range(topic_start[n], topic_start[n + 1]):
            if publishes[row]:
                client = member_client[row]
                for a in range(near):
                    here, x = server[client, a], chance[client, a]
                    compute[here] += spool[n] * x
                    if x > present[here]:
                        storage[here] += spool[n] * (x - present[here])
                        present[here] = x
        for row in range(topic_start[n], topic_start[n + 1]):
            for a in range(near):
                present[server[member_client[row], a]] = 0.0
    return storage, compute

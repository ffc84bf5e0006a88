"""Compiled loops of the bound: message passing between members, shared spools, loads, value.

Every client has the same number of labels. The first `locals_` say "home at this server, processed
there", the others "processed in the cloud"; `server[client, label]` is the home, and the index one
past the last server stands for "somewhere else", which is 0 ms from everywhere.
A topic's members are paired with the `window` members after them; message [pair, 0] belongs to the
first and message [pair, 1] to the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray

__all__ = [
    "add_shared_spools",
    "bound_value",
    "change_prices",
    "exchange_messages",
    "pair_offsets",
    "soft_loads",
]

_Float32s = npt.NDArray[np.float32]
_FAR = 1e30


def pair_offsets(topic_start: OffsetArray, window: int) -> OffsetArray:
    """Return where the pairs of each member row start; one entry more than rows."""
    rows = np.arange(topic_start[-1])
    end = np.repeat(topic_start[1:], np.diff(topic_start))
    partners = np.minimum(end - rows - 1, window)
    return np.concatenate([[0], np.cumsum(partners)]).astype(np.int64)


@njit(cache=True, fastmath=True)
def exchange_messages(
    potential: FloatArray,
    message: Any,
    pair_start: OffsetArray,
    member_client: IndexArray,
    publish_weight: FloatArray,
    subscribes: BoolArray,
    server: IndexArray,
    locals_: int,
    between: _Float32s,
    between_back: _Float32s,
    backward: bool,
) -> None:
    """Let every pair share its cost with its two clients, one pair after the other.

    A pair takes both clients' potentials, adds its own cost and hands back as much as it can:
    half of the first client's min-marginals, all that is then left to the second, the rest to the
    first. What it keeps is 0 at least, so the sum of the clients' minima is a lower bound.
    """
    labels = potential.shape[1]
    rows = len(pair_start) - 1
    joint = np.empty((labels, labels), dtype=np.float32)
    first = np.empty(labels, dtype=np.float32)
    second = np.empty(labels, dtype=np.float32)
    first_new = np.empty(labels, dtype=np.float32)
    second_new = np.empty(labels, dtype=np.float32)
    there = np.empty(labels, dtype=np.int32)
    for step in range(rows):
        row = rows - 1 - step if backward else step
        partners = pair_start[row + 1] - pair_start[row]
        u = member_client[row]
        for k in range(partners):
            offset = partners - 1 - k if backward else k
            pair, other = pair_start[row] + offset, row + 1 + offset
            forth = np.float32(publish_weight[row] * subscribes[other])
            back = np.float32(publish_weight[other] * subscribes[row])
            if forth + back <= 0:
                continue
            v = member_client[other]
            for a in range(labels):
                first[a] = potential[u, a] - message[pair, 0, a]
                second[a] = potential[v, a] - message[pair, 1, a]
                there[a] = server[v, a]
                second_new[a] = _FAR
            for a in range(labels):
                here = server[u, a]
                forth_a = forth if a < locals_ else np.float32(0.0)
                least = np.float32(_FAR)
                for b in range(locals_):
                    x = forth_a * between[here, there[b]] + back * between_back[here, there[b]]
                    x += second[b]
                    joint[a, b] = x
                    least = min(least, x)
                for b in range(locals_, labels):
                    x = forth_a * between[here, there[b]] + second[b]
                    joint[a, b] = x
                    least = min(least, x)
                half = np.float32(0.5) * (least + first[a])
                first_new[a] = half
                rest = first[a] - half
                for b in range(labels):
                    x = joint[a, b] + rest
                    joint[a, b] = x
                    second_new[b] = min(second_new[b], x)
            for a in range(labels):
                least = np.float32(_FAR)
                for b in range(labels):
                    least = min(least, joint[a, b] - second_new[b])
                first_new[a] += least
            for a in range(labels):
                # The potential is rebuilt from the rounded message, so that errors do not add up.
                before = potential[u, a] - message[pair, 0, a]
                message[pair, 0, a] = first_new[a] - first[a]
                potential[u, a] = before + message[pair, 0, a]
                before = potential[v, a] - message[pair, 1, a]
                message[pair, 1, a] = second_new[a] - second[a]
                potential[v, a] = before + message[pair, 1, a]


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


@njit(cache=True)
def bound_value(
    potential: FloatArray,
    spool_share: FloatArray,
    message: Any,
    pair_start: OffsetArray,
    member_client: IndexArray,
    publish_weight: FloatArray,
    subscribes: BoolArray,
    server: IndexArray,
    locals_: int,
    between: FloatArray,
) -> float:
    """Return the clients' minima plus what the pairs keep, from scratch in double precision.

    `potential` comes in with legs, cloud and compute prices and is used up.
    """
    labels = potential.shape[1]
    kept = 0.0
    for row in range(len(pair_start) - 1):
        u = member_client[row]
        for a in range(labels):
            potential[u, a] += spool_share[row, a]
        for pair in range(pair_start[row], pair_start[row + 1]):
            other = row + 1 + pair - pair_start[row]
            v = member_client[other]
            forth = publish_weight[row] * subscribes[other]
            back = publish_weight[other] * subscribes[row]
            least = _FAR
            for a in range(labels):
                potential[u, a] += message[pair, 0, a]
                potential[v, a] += message[pair, 1, a]
                for b in range(labels):
                    x = -np.float64(message[pair, 0, a]) - message[pair, 1, b]
                    if a < locals_:
                        x += forth * between[server[u, a], server[v, b]]
                    if b < locals_:
                        x += back * between[server[v, b], server[u, a]]
                    least = min(least, x)
            kept += least
    for client in range(len(potential)):
        kept += potential[client].min()
    return kept

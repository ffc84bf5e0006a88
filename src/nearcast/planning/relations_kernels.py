"""The numba kernel that counts shared topics and ranks each client's partners."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["count_partners"]

Array = npt.NDArray[Any]


@njit(cache=True)
def _rank(keys: Array, most: int) -> None:
    """Bring the `most` smallest to the front, in order; short lists nearly are already."""
    if len(keys) > 64:
        if len(keys) > 2 * most:
            keys[:] = np.partition(keys, most)
            keys[:most].sort()
        else:
            keys.sort()
        return
    for i in range(1, len(keys)):
        key, j = keys[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@njit(cache=True)
def count_partners(
    client_start: Array,
    client_topic: Array,
    topic_start: Array,
    topic_client: Array,
    partners_per_topic: int,
    most: int,
    start: Array,
    others: Array,
    score: Array,
) -> None:
    """Fill (start, others, score): partners of each client, most shared topics first.

    `topic_client` is in ascending order within a topic; only the first `partners_per_topic` of
    a topic count as partners.
    """
    clients = len(client_start) - 1
    shared = np.zeros(clients, dtype=np.int32)
    met = np.empty(clients, dtype=np.int64)
    filled = 0
    for client in range(clients):
        found = 0
        for row in range(client_start[client], client_start[client + 1]):
            topic = client_topic[row]
            end = min(topic_start[topic + 1], topic_start[topic] + partners_per_topic)
            for at in range(topic_start[topic], end):
                other = topic_client[at]
                if other == client:
                    continue
                if shared[other] == 0:
                    met[found] = other
                    found += 1
                shared[other] += 1
        # One number ranks by shared topics, then by index: the smallest comes first.
        for i in range(found):
            other = met[i]
            met[i] = other - shared[other] * clients
        _rank(met[:found], most)
        kept = min(found, most)
        for i in range(found):
            other = met[i] % clients
            if i < kept:
                others[filled + i] = other
                score[filled + i] = shared[other]
            shared[other] = 0
        filled += kept
        start[client + 1] = filled

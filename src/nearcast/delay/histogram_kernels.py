"""The numba kernel that puts every publisher/subscriber pair into a histogram of delays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["add_pairs"]

Array = npt.NDArray[Any]


@njit(cache=True)
def _next(state: Array) -> np.uint64:
    """Return 64 random bits (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


@njit(cache=True)
def _below(state: Array, count: int) -> int:
    return int(((_next(state) >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@njit(cache=True)
def add_pairs(
    publisher_start: Array,
    own: Array,
    send_ms: Array,
    share: Array,
    source: Array,
    weight: Array,
    receivers: Array,
    subscriber_start: Array,
    receive_ms: Array,
    target: Array,
    between_ms: Array,
    most_pairs: int,
    seeds: Array,
    shift: int,
    first_bin: int,
    histogram: Array,
    largest_ms: Array,
    looked_at: Array,
) -> None:
    """Add the weight of each pair to the bin of its delay, topic by topic.

    Publishers and subscribers are sorted by topic. `own` is a publisher's place among the
    subscribers (-1: it is none), `weight` that of one of its pairs. A topic with more than
    `most_pairs` pairs has that many drawn: a publisher, then another subscriber, each with the
    same chance, so a drawn pair stands for its publisher's whole weight. `histogram` has a bin
    for each number that a delay's upper bits make; `largest_ms` and `looked_at` are by topic.
    """
    state = np.empty(1, dtype=np.uint64)
    bits = np.empty(1)
    as_integer = bits.view(np.int64)
    for topic in range(len(publisher_start) - 1):
        begin, end = publisher_start[topic], publisher_start[topic + 1]
        first, last = subscriber_start[topic], subscriber_start[topic + 1]
        pairs = 0
        for p in range(begin, end):
            pairs += receivers[p]
        largest = 0.0
        if pairs <= most_pairs:
            looked_at[topic] = pairs
            for p in range(begin, end):
                for s in range(first, last):
                    if s != own[p]:
                        bits[0] = send_ms[p] + share[p] * between_ms[source[p], target[s]]
                        bits[0] += receive_ms[s]
                        largest = max(largest, bits[0])
                        at = (as_integer[0] >> shift) - first_bin
                        histogram[min(max(at, 0), len(histogram) - 1)] += weight[p]
        else:
            looked_at[topic] = most_pairs
            state[0] = seeds[topic]
            for _ in range(most_pairs):
                p = begin + _below(state, end - begin)
                s = first + _below(state, receivers[p])
                if own[p] >= 0 and s >= own[p]:
                    s += 1
                bits[0] = send_ms[p] + share[p] * between_ms[source[p], target[s]]
                bits[0] += receive_ms[s]
                largest = max(largest, bits[0])
                at = (as_integer[0] >> shift) - first_bin
                stands_for = weight[p] * receivers[p] * (end - begin) / most_pairs
                histogram[min(max(at, 0), len(histogram) - 1)] += stands_for
        largest_ms[topic] = largest

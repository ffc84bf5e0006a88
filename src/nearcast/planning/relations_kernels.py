"""The numba kernels that meet each client's partners and rank them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["count_partners", "score_partners"]

Array = npt.NDArray[Any]
_SHORT = 128


@njit(cache=True)
def _meet(
    client: int,
    client_start: Array,
    client_topic: Array,
    topic_start: Array,
    topic_client: Array,
    partners_per_topic: int,
    shared: Array,
    met: Array,
) -> int:
    """Count the topics shared with each other client; return how many others were `met`."""
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
    return found


@njit(cache=True)
def _before(others: Array, scores: Array, one: int, two: int) -> bool:
    """Return whether entry `one` ranks before entry `two`: by score, then by index."""
    if scores[one] != scores[two]:
        return bool(scores[one] > scores[two])
    return bool(others[one] < others[two])


@njit(cache=True)
def _swap(others: Array, scores: Array, one: int, two: int) -> None:
    others[one], others[two] = others[two], others[one]
    scores[one], scores[two] = scores[two], scores[one]


@njit(cache=True)
def _sink(others: Array, scores: Array, top: int, size: int) -> None:
    """Restore the heap others[:size] below `top`; the entry that ranks last is at its top."""
    child = 2 * top + 1
    while child < size:
        if child + 1 < size and _before(others, scores, child, child + 1):
            child += 1
        if not _before(others, scores, top, child):
            return
        _swap(others, scores, top, child)
        top, child = child, 2 * child + 1


@njit(cache=True)
def _rank(others: Array, scores: Array, most: int) -> int:
    """Bring the `most` strongest to the front, in order; return how many these are.

    Written out since numba takes many seconds to compile numpy's sorts.
    """
    found = len(others)
    if found <= _SHORT:  # short lists are nearly in order: topics list their members by index
        for at in range(1, found):
            other, score, hole = others[at], scores[at], at
            while hole > 0 and (
                scores[hole - 1] < score or (scores[hole - 1] == score and others[hole - 1] > other)
            ):
                others[hole], scores[hole] = others[hole - 1], scores[hole - 1]
                hole -= 1
            others[hole], scores[hole] = other, score
        return min(found, most)
    kept = min(found, most)
    for top in range(kept // 2 - 1, -1, -1):
        _sink(others, scores, top, kept)
    for at in range(kept, found):
        if _before(others, scores, at, 0):
            _swap(others, scores, at, 0)
            _sink(others, scores, 0, kept)
    for last in range(kept - 1, 0, -1):
        _swap(others, scores, 0, last)
        _sink(others, scores, 0, last)
    return kept


@njit(cache=True)
def count_partners(
    client_start: Array,
    client_topic: Array,
    topic_start: Array,
    topic_client: Array,
    partners_per_topic: int,
    most: int,
    begin: int,
    end: int,
    start: Array,
    others: Array,
    score: Array,
) -> None:
    """Fill (start, others, score): partners of clients begin:end, most shared topics first.

    `topic_client` is in ascending order within a topic; only the first `partners_per_topic` of
    a topic count as partners.
    """
    clients = len(client_start) - 1
    shared = np.zeros(clients, dtype=np.int32)
    met = np.empty(clients, dtype=np.int32)
    scores = np.empty(clients, dtype=np.int32)
    filled = 0
    for client in range(begin, end):
        found = _meet(
            client,
            client_start,
            client_topic,
            topic_start,
            topic_client,
            partners_per_topic,
            shared,
            met,
        )
        for i in range(found):
            scores[i] = shared[met[i]]
            shared[met[i]] = 0
        kept = _rank(met[:found], scores[:found], most)
        for i in range(kept):
            others[filled + i] = met[i]
            score[filled + i] = scores[i]
        filled += kept
        start[client - begin + 1] = filled


@njit(cache=True)
def score_partners(
    client_start: Array,
    client_topic: Array,
    topic_start: Array,
    topic_client: Array,
    factors: Array,
    partners_per_topic: int,
    most: int,
    decimals: int,
    begin: int,
    end: int,
    start: Array,
    others: Array,
    score: Array,
) -> None:
    """Fill (start, others, score) as `count_partners`, ranked by the product of the factors.

    Scores are rounded to `decimals` first; others without a positive score are left out.
    """
    clients = len(client_start) - 1
    shared = np.zeros(clients, dtype=np.int32)
    met = np.empty(clients, dtype=np.int32)
    scores = np.empty(clients, dtype=np.float64)
    filled = 0
    for client in range(begin, end):
        found = _meet(
            client,
            client_start,
            client_topic,
            topic_start,
            topic_client,
            partners_per_topic,
            shared,
            met,
        )
        positive = 0
        for i in range(found):
            other = met[i]
            shared[other] = 0
            product = 0.0
            for factor in range(factors.shape[1]):
                product += factors[client, factor] * factors[other, factor]
            product = round(product, decimals)
            if product > 0:
                met[positive] = other
                scores[positive] = product
                positive += 1
        kept = _rank(met[:positive], scores[:positive], most)
        for i in range(kept):
            others[filled + i] = met[i]
            score[filled + i] = scores[i]
        filled += kept
        start[client - begin + 1] = filled

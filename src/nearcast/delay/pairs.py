"""Enumerates publisher/subscriber pairs and slot pairs in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearcast.domain.scenario import BoolArray, IndexArray, OffsetArray

__all__ = ["member_pairs", "pair_blocks"]


def pair_blocks(
    first: OffsetArray, size: OffsetArray, pairs_per_block: int
) -> Iterator[tuple[OffsetArray, OffsetArray]]:
    """Yield (i, first[i] + 0 .. first[i] + size[i] - 1) for all i, as two long arrays a block."""
    total = np.concatenate([[0], np.cumsum(size)])
    begin = 0
    while begin < len(first):
        end = int(np.searchsorted(total, total[begin] + pairs_per_block, side="right")) - 1
        end = max(end, begin + 1)
        sizes = size[begin:end]
        left = np.repeat(np.arange(begin, end), sizes)
        offset = np.arange(len(left)) - np.repeat(total[begin:end] - total[begin], sizes)
        yield left, first[left] + offset
        begin = end


def member_pairs(
    member_topic: IndexArray,
    publishes: BoolArray,
    subscribes: BoolArray,
    topic_count: int,
    pairs_per_block: int = 2_000_000,
) -> Iterator[tuple[OffsetArray, OffsetArray]]:
    """Yield (publisher rows, subscriber rows) of all pairs of two members of a topic."""
    publishers, subscribers = np.flatnonzero(publishes), np.flatnonzero(subscribes)
    start = np.searchsorted(member_topic[subscribers], np.arange(topic_count + 1))
    topic = member_topic[publishers]
    first, size = start[topic], start[topic + 1] - start[topic]
    for left, right in pair_blocks(first, size, pairs_per_block):
        publisher, subscriber = publishers[left], subscribers[right]
        different = publisher != subscriber
        yield publisher[different], subscriber[different]

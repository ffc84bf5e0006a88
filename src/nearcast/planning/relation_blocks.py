"""Ranking the partners of a block of clients: the same for a whole scenario and for one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import IndexArray, OffsetArray

__all__ = ["Arrays", "RankedBlock", "count_block", "rebuild_block", "score_block"]

_Array = npt.NDArray[Any]
Arrays = Mapping[str, _Array]
"""What the ranking of any block reads: see `relations.RelationWork`."""
_DECIMALS = 9
"""Decimals of a reconstructed score: what differs less is a tie."""


class RankedBlock(NamedTuple):
    """The most related others of the clients begin:end, strongest first, ties by index."""

    start: OffsetArray
    """Client begin + i has the entries start[i]:start[i + 1]."""
    others: IndexArray
    score: npt.NDArray[np.float32]


def count_block(arrays: Arrays, begin: int, end: int, most: int, limit: int) -> RankedBlock:
    """Return relations by shared topics; a topic offers its first `limit` members."""
    from nearcast.planning.relations_kernels import count_partners

    block = _room(arrays, begin, end, most)
    count_partners(*_membership(arrays), limit, most, begin, end, *block)
    return _filled(block)


def score_block(arrays: Arrays, begin: int, end: int, most: int, limit: int) -> RankedBlock:
    """Return relations by the product of client factors, of those only who share a topic."""
    from nearcast.planning.relations_kernels import score_partners

    block = _room(arrays, begin, end, most)
    score_partners(
        *_membership(arrays),
        _read_only(arrays["factors"]),
        limit,
        most,
        _DECIMALS,
        begin,
        end,
        *block,
    )
    return _filled(block)


def rebuild_block(arrays: Arrays, begin: int, end: int, most: int) -> RankedBlock:
    """Return relations by the product of client factors, of all pairs."""
    factors = arrays["factors"]
    block = np.round(factors[begin:end] @ factors.T, _DECIMALS)
    own = np.arange(end - begin)
    block[own, own + begin] = 0.0
    order = np.argsort(-block, axis=1, kind="stable")[:, :most]
    value = np.take_along_axis(block, order, axis=1)
    related = value > 0
    start = np.concatenate([[0], np.cumsum(related.sum(axis=1))]).astype(np.int64)
    return RankedBlock(start, order[related].astype(np.int32), value[related].astype(np.float32))


def _membership(arrays: Arrays) -> tuple[_Array, _Array, _Array, _Array]:
    return (
        _read_only(arrays["client_start"]),
        _read_only(arrays["client_topic"]),
        _read_only(arrays["topic_start"]),
        _read_only(arrays["topic_client"]),
    )


def _read_only(array: _Array) -> _Array:
    """Return what mapped files and arrays in memory have in common: one compiled kernel."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _room(arrays: Arrays, begin: int, end: int, most: int) -> RankedBlock:
    # At most so many partners: without repeats, and never more than `most`.
    capacity = int(np.minimum(arrays["reach"][begin:end], most).sum())
    return RankedBlock(
        np.zeros(end - begin + 1, dtype=np.int64),
        np.empty(capacity, dtype=np.int32),
        np.empty(capacity, dtype=np.float32),
    )


def _filled(block: RankedBlock) -> RankedBlock:
    count = block.start[-1]
    return RankedBlock(block.start, block.others[:count], block.score[:count])

"""Values in the order of their keys, without anything as long as all of them but the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import IndexArray, OffsetArray

__all__ = ["Room", "group_pieces"]

Array = npt.NDArray[Any]
Room = Callable[[int, Any], Array]
"""Gives an array of a length and a type, in memory as `numpy.empty` or mapped from a file."""
Pieces = Callable[[], Iterable[tuple[IndexArray, Array]]]


def group_pieces(pieces: Pieces, keys: int, out: Array) -> OffsetArray:
    """Put values into `out` by key, those of a key as they come, and return where each begins.

    Parameters
    ----------
    pieces : gives keys and their values piece by piece; called twice.
    keys : keys are below this number.
    """
    start = np.zeros(keys + 1, dtype=np.int64)
    for key, _ in pieces():
        np.add.at(start, *_counted(key + 1))
    np.cumsum(start, out=start)
    end = start[:-1].copy()
    for key, values in pieces():
        order = np.argsort(key, kind="stable")
        which, count = _counted(key)
        before = np.cumsum(count) - count
        place = np.arange(len(key)) + np.repeat(end[which] - before, count)
        out[place] = values[order]
        end[which] += count
    return start


def _counted(key: Array) -> tuple[Array, Array]:
    which, count = np.unique(key, return_counts=True)
    return which, count

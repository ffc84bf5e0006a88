"""Slots, the (topic, server) pairs that a plan uses, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.delay.pairs import pair_blocks
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray

__all__ = ["Slots", "count_by_slot", "pair_slots", "sum_by"]

_PAIRS_PER_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The used (topic, server) pairs, sorted by topic and then server."""

    topic: IndexArray
    server: IndexArray
    values: dict[str, FloatArray]
    """Sums over the member rows of a slot, by name."""


def sum_by(index: npt.NDArray[Any], amount: npt.ArrayLike, length: int) -> FloatArray:
    """Return the sum of the amounts of each index, 0 to length - 1."""
    return np.bincount(index, np.asarray(amount, dtype=np.float64), length).astype(
        np.float64, copy=False
    )


def count_by_slot(
    topic: IndexArray, server: IndexArray, server_count: int, **amounts: npt.ArrayLike
) -> Slots:
    """Return the slots of rows (topic, server) with the sum of each amount."""
    key = topic.astype(np.int64) * server_count + server
    used, inverse = np.unique(key, return_inverse=True)
    return Slots(
        topic=(used // server_count).astype(np.int32),
        server=(used % server_count).astype(np.int32),
        values={name: sum_by(inverse, amount, len(used)) for name, amount in amounts.items()},
    )


def pair_slots(slots: Slots) -> Iterator[tuple[OffsetArray, OffsetArray]]:
    """Return all ordered pairs of slots of the same topic, in blocks of bounded size.

    A topic on k servers has k * k pairs: few, while its members may be very many.
    """
    first = np.searchsorted(slots.topic, slots.topic, side="left")
    size = np.searchsorted(slots.topic, slots.topic, side="right") - first
    return pair_blocks(first, size, _PAIRS_PER_BLOCK)

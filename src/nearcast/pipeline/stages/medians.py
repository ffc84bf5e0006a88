"""Exact medians of columns of any length, found on the executors.

Only values near the middle come to the driver, each one once: neither a long log nor many equal
values make them many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["exact_medians"]

_MARGIN, _ERROR = 0.01, 0.005
"""A bracket goes so far beyond the middle; Spark's quantiles may be so wrong. Shares of all."""
_MOST_ROWS = 200_000
"""Within a bracket, so that no further one is needed."""


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Values from `low` to `high`: how many there are, and how many are smaller."""

    low: float
    high: float
    rows: int
    below: int


def exact_medians(frame: DataFrame, axes: Sequence[str]) -> list[float]:
    """Return the median of each column; there is a row at least, and no null."""
    total = frame.count()
    ranks = (total - 1) // 2, total // 2
    begin = _Bracket(-np.inf, np.inf, total, 0)
    brackets = _narrower(frame, axes, begin, ranks)
    return [
        _median(frame, axis, bracket, ranks) for axis, bracket in zip(axes, brackets, strict=True)
    ]


def _narrower(
    frame: DataFrame, axes: Sequence[str], bracket: _Bracket, ranks: tuple[int, int]
) -> list[_Bracket]:
    """Return a bracket of each column around the ranks; the frame has the rows of the old one."""
    lower, upper = ((rank - bracket.below) / bracket.rows for rank in ranks)
    shares = [max(lower - _MARGIN, 0.0), min(upper + _MARGIN, 1.0)]
    limits = frame.approxQuantile(list(axes), shares, _ERROR)
    counts = frame.agg(
        *(sf.count_if(sf.col(axis) < low) for axis, (low, _) in zip(axes, limits, strict=True)),
        *(
            sf.count_if(sf.col(axis).between(*both))
            for axis, both in zip(axes, limits, strict=True)
        ),
    ).first()
    assert counts is not None  # an aggregate without groups has one row
    smaller, inside = counts[: len(axes)], counts[len(axes) :]
    return [
        _Bracket(low, high, rows, bracket.below + below)
        for (low, high), rows, below in zip(limits, inside, smaller, strict=True)
    ]


def _median(frame: DataFrame, axis: str, bracket: _Bracket, ranks: tuple[int, int]) -> float:
    values = frame.select(axis)
    inside = values.where(sf.col(axis).between(bracket.low, bracket.high))
    while bracket.rows > _MOST_ROWS and bracket.low < bracket.high:
        (found,) = _narrower(inside, [axis], bracket, ranks)
        if found.rows > bracket.rows / 2:
            break  # most are equal to one of the ends: they are few when each counts once
        bracket = found
        inside = values.where(sf.col(axis).between(bracket.low, bracket.high))
    counted = inside.groupBy(axis).agg(sf.count(sf.lit(1)).alias("rows")).toArrow().sort_by(axis)
    upto = bracket.below + np.cumsum(counted.column("rows").to_numpy())
    place = np.searchsorted(upto, ranks, side="right")
    return float(counted.column(axis).to_numpy()[place].mean())

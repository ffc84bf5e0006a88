"""Small polygons as rows of one table, so that a point is tested against many at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast.geo.bounds import Bools, Floats
from nearcast.geo.polygon import Polygon

__all__ = ["MOST_LINES", "PolygonTable"]

MOST_LINES = 16
"""Sides of a polygon that fits into a row."""


class PolygonTable:
    """Rows of corners and lines, filled up with lines that no point is beside."""

    def __init__(self) -> None:
        self._corner_y: Floats = np.zeros((0, MOST_LINES + 1))
        self._slope: Floats = np.zeros((0, MOST_LINES))
        self._x_at_zero: Floats = np.zeros((0, MOST_LINES))
        self._free: list[int] = []

    def add(self, polygon: Polygon) -> int | None:
        """Return the row in which the polygon now is; None when it has too many sides."""
        table = polygon.table
        count = len(table.east_per_north)
        if count > MOST_LINES:
            return None
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._corner_y[row] = table.corner_y[-1, 0]
        self._corner_y[row, : count + 1] = table.corner_y[:, 0]
        self._slope[row, :count] = table.east_per_north[:, 0]
        self._x_at_zero[row, :count] = table.x_at_zero[:, 0]
        return row

    def free(self, row: int) -> None:
        """Let another polygon have the row."""
        self._free.append(row)

    def contain(self, rows: npt.NDArray[np.int32], x_km: float, y_km: float) -> Bools:
        """Tell which of the polygons contain the point, by the arithmetic of `Polygon.contains`."""
        above = y_km >= self._corner_y[rows]
        side_x = self._slope[rows]
        side_x *= y_km
        side_x += self._x_at_zero[rows]
        inside = x_km < side_x
        inside &= above[:, 1:] ^ above[:, :-1]
        odd: Bools = np.bitwise_xor.reduce(inside, axis=1)
        return odd

    def _grow(self) -> None:
        size = len(self._slope)
        more = max(64, size)
        for name in ("_corner_y", "_slope", "_x_at_zero"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((more, old.shape[1]))]))
        self._free.extend(range(size + more - 1, size - 1, -1))

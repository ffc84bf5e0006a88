"""Where many moving clients are: a grid that is laid anew for all of them at once.

Clients are sorted by cell, row by row, so that those in a row of neighbouring cells are one slice.
Cells have 16-bit numbers, which numpy sorts by radix: all of 100,000 clients in a few ms.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds, Floats, Shape

__all__ = ["PointIndex"]

Indices = npt.NDArray[np.int64]

_MOST_ROWS, _COLUMNS_PER_ROW = 52, 24
_POINTS_PER_CELL = 2
"""A query costs by the number of rows that it meets, so cells are narrow but high."""


class PointIndex:
    """Finds the points inside a shape, and the nearest to a point.

    Parameters
    ----------
    field
        Where points are expected; others are found too, only slower.
    """

    def __init__(self, field: Bounds) -> None:
        self._field = field
        self._rows = self._columns = 1
        self._columns_per_km = self._rows_per_km = 0.0
        self._table: Floats = np.empty((3, 0))
        """x, y and index of each point, by cell: one table, for one copy per query."""
        self._starts = [0, 0]

    def __len__(self) -> int:
        return len(self._table[0])

    def update(self, x_km: Floats, y_km: Floats) -> None:
        """Take the positions of all points; their indices are what the queries return.

        Raises
        ------
        AreaError
            When a position is not finite; the index stays as it was.
        """
        if not math.isfinite(float(x_km.sum()) + float(y_km.sum())):
            wrong = ~(np.isfinite(x_km) & np.isfinite(y_km))
            if wrong.any():
                raise AreaError(f"the position of point {int(np.argmax(wrong))} is not finite")
        west, south, east, north = self._field
        rows = math.isqrt(len(x_km) // (_POINTS_PER_CELL * _COLUMNS_PER_ROW))
        rows = max(1, min(_MOST_ROWS, rows))
        columns = rows * _COLUMNS_PER_ROW
        columns_per_km, rows_per_km = columns / (east - west), rows / (north - south)
        column = (x_km - west) * columns_per_km
        row = (y_km - south) * rows_per_km
        np.clip(column, 0, columns - 1, out=column)
        np.clip(row, 0, rows - 1, out=row)
        cell = row.astype(np.uint16)
        cell *= np.uint16(columns)
        cell += column.astype(np.uint16)
        order = cell.argsort(kind="stable")
        table = np.empty((3, len(order)))
        np.take(x_km, order, out=table[0])
        np.take(y_km, order, out=table[1])
        table[2] = order
        self._rows, self._columns, self._table = rows, columns, table
        self._columns_per_km, self._rows_per_km = columns_per_km, rows_per_km
        self._starts = [0, *np.bincount(cell, minlength=rows * columns).cumsum().tolist()]

    def inside(self, shape: Shape) -> Indices:
        """Return the points inside the shape, in no order."""
        x_km, y_km, index = self._around(shape.bounds)
        found: Indices = index[shape.contains(x_km, y_km)].astype(np.int64)
        return found

    def nearest(self, x_km: float, y_km: float, count: int) -> Indices:
        """Return the points nearest to a place, nearest first; by index where equally far."""
        if count <= 0 or not len(self):
            return np.empty(0, np.int64)
        count = min(count, len(self))
        west, south, east, north = self._field
        reach = math.hypot(east - west, north - south) * math.sqrt(count / len(self)) + 1e-9
        while True:
            found_x, found_y, index = self._around(Bounds(x_km, y_km, x_km, y_km).grown(reach))
            away = np.hypot(found_x - x_km, found_y - y_km)
            near = away <= reach
            if np.count_nonzero(near) >= count:
                away, index = away[near], index[near]
                found: Indices = index[np.lexsort((index, away))[:count]].astype(np.int64)
                return found
            reach *= 2

    def _around(self, bounds: Bounds) -> Floats:
        """Return x, y and index, [3, point], of the points in all cells that meet the bounds."""
        columns, starts, table = self._columns, self._starts, self._table
        origin, per_km, last = self._field.west_km, self._columns_per_km, columns - 1
        first_column = _cell((bounds.west_km - origin) * per_km, last)
        width = _cell((bounds.east_km - origin) * per_km, last) + 1 - first_column
        origin, per_km, last = self._field.south_km, self._rows_per_km, self._rows - 1
        first = _cell((bounds.south_km - origin) * per_km, last) * columns + first_column
        end = (_cell((bounds.north_km - origin) * per_km, last) + 1) * columns
        if width == columns:  # whole rows
            return table[:, starts[first] : starts[end]]
        rows = [
            table[:, starts[cell] : starts[cell + width]] for cell in range(first, end, columns)
        ]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _cell(place: float, last: int) -> int:
    return 0 if place < 0 else last if place > last else int(place)

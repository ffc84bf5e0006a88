"""Which of many areas a point is in: grids of several cell sizes, and one table of all areas.

Each area stands in the grid whose cells are about its size, in at most nine of them, so that a
large area costs no more than a small one. A point looks into one cell of each grid, compares with
the bounding boxes there, all at once, and tests what is left exactly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds, Floats, Shape
from nearcast.geo.polygon import Polygon
from nearcast.geo.polygon_table import PolygonTable
from nearcast.geo.shapes import Circle, Rectangle

__all__ = ["AreaIndex"]

Rows = npt.NDArray[np.int32]
Key = TypeVar("Key", bound=Hashable)
Cell = tuple[int, int, int]
"""Level, column, row; a cell of the next level is twice as wide."""

_LEAST_CELL_KM = 1 / 64
_RECTANGLE, _CIRCLE, _POLYGON, _OTHER = range(4)


class AreaIndex(Generic[Key]):
    """Areas by key; finds those that contain a point.

    Parameters
    ----------
    most_areas
        More are refused.
    """

    def __init__(self, most_areas: int = 1_000_000) -> None:
        self._most_areas = most_areas
        self._row_of: dict[Key, int] = {}
        self._areas: list[tuple[Key, Shape] | None] = []
        self._free: list[int] = []
        self._boxes: Floats = np.zeros((0, 4))
        self._circles: Floats = np.zeros((0, 3))
        self._kinds: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self._polygon_rows: Rows = np.zeros(0, np.int32)
        self._polygons = PolygonTable()
        self._cells: dict[Cell, set[int]] = {}
        self._packed: dict[Cell, Rows] = {}
        """Cells as arrays, made when a point first looks into one after a change."""
        self._cells_of_level: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, key: Key) -> bool:
        return key in self._row_of

    def put(self, key: Key, shape: Shape) -> None:
        """Add an area, or replace the one of this key: also how an area moves with a client."""
        if key in self._row_of:
            self.remove(key)
        elif len(self._row_of) >= self._most_areas:
            raise AreaError(f"there are {self._most_areas:,} areas; no more are taken")
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._row_of[key] = row
        self._areas[row] = key, shape
        self._boxes[row] = shape.bounds
        self._kinds[row] = self._store(row, shape)
        for cell in _cells(shape.bounds):
            rows = self._cells.get(cell)
            if rows is None:
                rows = self._cells[cell] = set()
                self._cells_of_level[cell[0]] = self._cells_of_level.get(cell[0], 0) + 1
            rows.add(row)
            self._packed.pop(cell, None)

    def remove(self, key: Key) -> None:
        """Take an area out; KeyError when it is not there."""
        row = self._row_of.pop(key)
        for cell in _cells(Bounds(*self._boxes[row].tolist())):
            rows = self._cells[cell]
            rows.discard(row)
            self._packed.pop(cell, None)
            if not rows:
                del self._cells[cell]
                self._cells_of_level[cell[0]] -= 1
                if not self._cells_of_level[cell[0]]:
                    del self._cells_of_level[cell[0]]
        if self._kinds[row] == _POLYGON:
            self._polygons.free(int(self._polygon_rows[row]))
        self._areas[row] = None
        self._free.append(row)

    def at(self, x_km: float, y_km: float) -> list[Key]:
        """Return the keys of all areas that contain the point, in no order."""
        if not (math.isfinite(x_km) and math.isfinite(y_km)):
            return []
        found = [self._exact(rows, x_km, y_km) for rows in self._around(x_km, y_km)]
        return [self._area(row)[0] for rows in found for row in rows]

    def _around(self, x_km: float, y_km: float) -> Iterator[Rows]:
        for level in self._cells_of_level:
            size = _LEAST_CELL_KM * 2.0**level
            cell = level, math.floor(x_km / size), math.floor(y_km / size)
            rows = self._packed.get(cell)
            if rows is None:
                members = self._cells.get(cell)
                if members is None:
                    continue
                rows = self._packed[cell] = np.fromiter(members, np.int32, len(members))
            yield rows

    def _exact(self, rows: Rows, x_km: float, y_km: float) -> list[int]:
        west, south, east, north = self._boxes[rows].T
        rows = rows[(west <= x_km) & (south <= y_km) & (east >= x_km) & (north >= y_km)]
        kinds = self._kinds[rows]
        exact: list[int] = rows[kinds == _RECTANGLE].tolist()
        circles = rows[kinds == _CIRCLE]
        if len(circles):
            centre_x, centre_y, radius2 = self._circles[circles].T
            east, north = centre_x - x_km, centre_y - y_km
            exact += circles[east * east + north * north <= radius2].tolist()
        polygons = rows[kinds == _POLYGON]
        if len(polygons):
            inside = self._polygons.contain(self._polygon_rows[polygons], x_km, y_km)
            exact += polygons[inside].tolist()
        others = rows[kinds == _OTHER].tolist()
        if others:
            x, y = np.array([x_km]), np.array([y_km])
            exact += [row for row in others if self._area(row)[1].contains(x, y)[0]]
        return exact

    def _area(self, row: int) -> tuple[Key, Shape]:
        area = self._areas[row]
        assert area is not None
        return area

    def _store(self, row: int, shape: Shape) -> int:
        """Put the shape where its kind is tested; return the kind."""
        if isinstance(shape, Rectangle):
            return _RECTANGLE
        if isinstance(shape, Circle):
            self._circles[row] = shape.x_km, shape.y_km, shape.radius_km * shape.radius_km
            return _CIRCLE
        if isinstance(shape, Polygon):
            polygon_row = self._polygons.add(shape)
            if polygon_row is not None:
                self._polygon_rows[row] = polygon_row
                return _POLYGON
        return _OTHER

    def _grow(self) -> None:
        size = len(self._areas)
        more = max(64, size)
        self._areas.extend([None] * more)
        self._boxes = np.concatenate([self._boxes, np.zeros((more, 4))])
        self._circles = np.concatenate([self._circles, np.zeros((more, 3))])
        self._kinds = np.concatenate([self._kinds, np.zeros(more, np.int8)])
        self._polygon_rows = np.concatenate([self._polygon_rows, np.zeros(more, np.int32)])
        self._free.extend(range(size + more - 1, size - 1, -1))


def _cells(bounds: Bounds) -> list[Cell]:
    """Return the cells that bounds meet: at most three by three, half as wide as they or wider."""
    west, south, east, north = bounds
    extent = max(east - west, north - south, _LEAST_CELL_KM)
    level = max(0, math.ceil(math.log2(extent / _LEAST_CELL_KM)) - 1)
    size = _LEAST_CELL_KM * 2.0**level
    return [
        (level, column, row)
        for column in range(math.floor(west / size), math.floor(east / size) + 1)
        for row in range(math.floor(south / size), math.floor(north / size) + 1)
    ]

"""Other ways to find points in areas and areas at a point: shapely's STRtree, rtree, h3, a scan.

Each keeps the plane's kilometres, but h3, which knows degrees: its points lie around (0, 0), where
a degree is as long in both directions. What an index finds is tested exactly by shapely.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from nearcast.geo.area_index import AreaIndex
from nearcast.geo.bounds import Bounds, Floats
from nearcast.geo.point_index import PointIndex
from nearcast.geo.polygon import Polygon

__all__ = ["METHODS", "AreaMethod", "missing"]

Found = Any
"""Numbers of points or areas: a list or an array, as the library has them."""

_KM_PER_DEGREE = 111.195
_H3_RESOLUTION = 9


class AreaMethod(Protocol):
    """One way to find points in areas and areas at a point."""

    def update(self, x_km: Floats, y_km: Floats) -> None:
        """Take the positions of all points."""
        ...

    def inside(self, polygon: Polygon) -> Found:
        """Return the points in a polygon."""
        ...

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        """Take all areas."""
        ...

    def at(self, x_km: float, y_km: float) -> Found:
        """Return the areas that contain a point."""
        ...


class _Grid:
    def __init__(self, field: Bounds) -> None:
        self._points = PointIndex(field)
        self._areas: AreaIndex[int] = AreaIndex()

    def update(self, x_km: Floats, y_km: Floats) -> None:
        self._points.update(x_km, y_km)

    def inside(self, polygon: Polygon) -> Found:
        return self._points.inside(polygon)

    def at(self, x_km: float, y_km: float) -> Found:
        return self._areas.at(x_km, y_km)

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        for number, polygon in enumerate(polygons):
            self._areas.put(number, polygon)


class _Scan:
    """Bounding boxes of everything, compared at once, and the exact test of what is left."""

    def __init__(self, field: Bounds) -> None:
        pass

    def update(self, x_km: Floats, y_km: Floats) -> None:
        self._x, self._y = x_km.copy(), y_km.copy()

    def inside(self, polygon: Polygon) -> Found:
        x, y = self._x, self._y
        west, south, east, north = polygon.bounds
        found = np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north))
        return found[polygon.contains(x[found], y[found])]

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        self._polygons = polygons
        self._boxes = np.array([polygon.bounds for polygon in polygons]).T.copy()

    def at(self, x_km: float, y_km: float) -> Found:
        west, south, east, north = self._boxes
        found = np.flatnonzero((west <= x_km) & (south <= y_km) & (east >= x_km) & (north >= y_km))
        x, y = np.array([x_km]), np.array([y_km])
        return [row for row in found.tolist() if self._polygons[row].contains(x, y)[0]]


class _STRtree:
    def __init__(self, field: Bounds) -> None:
        import shapely

        self._shapely = shapely
        self._geometries: dict[int, Any] = {}

    def update(self, x_km: Floats, y_km: Floats) -> None:
        self._points = self._shapely.STRtree(self._shapely.points(x_km, y_km))

    def inside(self, polygon: Polygon) -> Found:
        geometry = _geometry(self._shapely, polygon, self._geometries)
        return self._points.query(geometry, "contains")

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        self._areas = self._shapely.STRtree(_geometries(self._shapely, polygons))

    def at(self, x_km: float, y_km: float) -> Found:
        return self._areas.query(self._shapely.Point(x_km, y_km), "intersects")


class _Rtree:
    def __init__(self, field: Bounds) -> None:
        import rtree.index
        import shapely

        self._index, self._shapely = rtree.index.Index, shapely
        self._geometries: dict[int, Any] = {}

    def update(self, x_km: Floats, y_km: Floats) -> None:
        self._x, self._y = x_km, y_km
        boxes = np.stack([x_km, y_km, x_km, y_km], axis=1)
        self._points = self._index((number, box, None) for number, box in enumerate(boxes.tolist()))

    def inside(self, polygon: Polygon) -> Found:
        geometry = _geometry(self._shapely, polygon, self._geometries)
        found = np.fromiter(self._points.intersection(polygon.bounds), np.int64)
        inside = self._shapely.contains_xy(geometry, self._x[found], self._y[found])
        return found[inside]

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        self._shapes = _geometries(self._shapely, polygons)
        self._areas = self._index(
            (number, polygon.bounds, None) for number, polygon in enumerate(polygons)
        )

    def at(self, x_km: float, y_km: float) -> Found:
        found = np.fromiter(self._areas.intersection((x_km, y_km, x_km, y_km)), np.int64)
        return found[self._shapely.contains_xy(self._shapes[found], x_km, y_km)]


class _H3:
    def __init__(self, field: Bounds) -> None:
        import h3.api.basic_int as h3
        import shapely

        self._h3, self._shapely = h3, shapely
        self._geometries: dict[int, Any] = {}

    def update(self, x_km: Floats, y_km: Floats) -> None:
        self._x, self._y = x_km, y_km
        cell_of = self._h3.latlng_to_cell
        self._points: dict[int, list[int]] = defaultdict(list)
        degrees = zip(
            (y_km / _KM_PER_DEGREE).tolist(), (x_km / _KM_PER_DEGREE).tolist(), strict=True
        )
        for number, (latitude, longitude) in enumerate(degrees):
            self._points[cell_of(latitude, longitude, _H3_RESOLUTION)].append(number)

    def inside(self, polygon: Polygon) -> Found:
        points = self._points
        near = [number for cell in self._cells(polygon) for number in points.get(cell, ())]
        found = np.array(near, dtype=np.int64)
        geometry = _geometry(self._shapely, polygon, self._geometries)
        inside = self._shapely.contains_xy(geometry, self._x[found], self._y[found])
        return found[inside]

    def subscribe(self, polygons: Sequence[Polygon]) -> None:
        self._shapes = _geometries(self._shapely, polygons)
        self._areas: dict[int, list[int]] = defaultdict(list)
        for number, polygon in enumerate(polygons):
            for cell in self._cells(polygon):
                self._areas[cell].append(number)

    def at(self, x_km: float, y_km: float) -> Found:
        cell = self._h3.latlng_to_cell(y_km / _KM_PER_DEGREE, x_km / _KM_PER_DEGREE, _H3_RESOLUTION)
        found = np.array(self._areas.get(cell, ()), dtype=np.int64)
        return found[self._shapely.contains_xy(self._shapes[found], x_km, y_km)]

    def _cells(self, polygon: Polygon) -> Any:
        corners = [(y / _KM_PER_DEGREE, x / _KM_PER_DEGREE) for x, y in polygon.corners]
        shape = self._h3.LatLngPoly(corners)
        return self._h3.h3shape_to_cells_experimental(shape, _H3_RESOLUTION, "overlap")


METHODS: dict[str, tuple[Callable[[Bounds], AreaMethod], tuple[str, ...]]] = {
    "grid": (_Grid, ()),
    "scan": (_Scan, ()),
    "strtree": (_STRtree, ("shapely",)),
    "rtree": (_Rtree, ("shapely", "rtree")),
    "h3": (_H3, ("shapely", "h3")),
}
"""How each is made, and the libraries that it needs. The first is nearcast's."""


def missing(method: str) -> list[str]:
    """Return the libraries of a method that are not installed."""
    return [name for name in METHODS[method][1] if importlib.util.find_spec(name) is None]


def _geometry(shapely: Any, polygon: Polygon, known: dict[int, Any]) -> Any:
    """Return shapely's polygon, made and prepared once, as ours has its table."""
    found = known.get(id(polygon))
    if found is None:
        found = known[id(polygon)] = shapely.Polygon(polygon.rings[0])
        shapely.prepare(found)
    return found


def _geometries(shapely: Any, polygons: Sequence[Polygon]) -> Any:
    found = np.array([shapely.Polygon(polygon.rings[0]) for polygon in polygons])
    shapely.prepare(found)
    return found

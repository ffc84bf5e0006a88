"""Which place each edge server covers, and which servers an area concerns.

By default a server covers what is nearer to it than to any other (Voronoi); a polygon of its own
may be configured instead, and then others keep what it leaves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import cos, hypot, pi, sin
from typing import Generic, TypeVar

import numpy as np

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds, Floats, check_number
from nearcast.geo.polygon import Polygon
from nearcast.geo.shapes import Rectangle

__all__ = ["Coverage"]

Key = TypeVar("Key", bound=Hashable)

_AROUND = tuple((cos(turn * pi / 4), sin(turn * pi / 4)) for turn in range(8))


class Coverage(Generic[Key]):
    """The area of coverage of each server of a site.

    Parameters
    ----------
    servers
        Where each server is, in kilometres.
    field
        What is covered; positions outside belong to the nearest server all the same.
    own
        Polygons of servers that have one by configuration; they may overlap and leave gaps.
    """

    def __init__(
        self,
        servers: Mapping[Key, tuple[float, float]],
        field: Bounds,
        own: Mapping[Key, Polygon] | None = None,
    ) -> None:
        if not servers:
            raise AreaError("there are no servers to cover anything")
        own = {} if own is None else own
        if unknown := [key for key in own if key not in servers]:
            raise AreaError(f"there is no server {unknown[0]!r:.60} to have an area of coverage")
        for key, place in servers.items():
            for value in place:
                check_number(value, f"place of server {key!r:.60}")
        Rectangle(field)  # refuses what is empty
        keys = [key for key in servers if key not in own]
        places = np.array([servers[key] for key in keys], dtype=np.float64).reshape(-1, 2)
        cells = _nearest_cells(places, _frame(field, places))
        self.areas: dict[Key, tuple[Polygon, ...]] = {
            **{key: (polygon,) for key, polygon in own.items()},
            **{key: (cell,) if cell else () for key, cell in zip(keys, cells, strict=True)},
        }
        self._own = tuple(own.items())
        self._places = tuple((key, *servers[key]) for key in keys or servers)

    def at(self, x_km: float, y_km: float) -> Key:
        """Return the server that covers a point: by its own polygon, or else the nearest one."""
        if self._own:
            x, y = np.array([x_km]), np.array([y_km])
            for key, polygon in self._own:
                if polygon.contains(x, y)[0]:
                    return key
        return min(self._places, key=lambda one: hypot(one[1] - x_km, one[2] - y_km))[0]

    def is_near(self, key: Key, x_km: float, y_km: float, margin_km: float) -> bool:
        """Tell whether a server covers any of eight points around one, a margin away."""
        return any(
            self.at(x_km + margin_km * east, y_km + margin_km * north) == key
            for east, north in _AROUND
        )


def _frame(field: Bounds, places: Floats) -> Bounds:
    """Return a field so large that whoever is outside of the site is still in someone's cell."""
    west, south, east, north = field
    if len(places):
        west, south = min(west, *places[:, 0]), min(south, *places[:, 1])
        east, north = max(east, *places[:, 0]), max(north, *places[:, 1])
    return Bounds(west, south, east, north).grown(10 * max(east - west, north - south))


def _nearest_cells(places: Floats, frame: Bounds) -> list[Polygon | None]:
    """Return what is nearest to each place; None for the later one of two at the same place."""
    west, south, east, north = frame
    whole = np.array([(west, south), (east, south), (east, north), (west, north)])
    cells: list[Polygon | None] = []
    for number, place in enumerate(places):
        away = np.hypot(*(places - place).T)
        corners = whole
        twin = False
        for other in np.argsort(away, kind="stable"):
            if other == number:
                continue
            if away[other] == 0:
                twin = twin or other < number
                continue
            # who is farther than twice the farthest corner cannot cut anything off
            if away[other] > 2 * np.hypot(*(corners - place).T).max():
                break
            corners = _nearer(corners, place, places[other])
        cells.append(None if twin else Polygon.around(corners.tolist()))
    return cells


def _nearer(corners: Floats, place: Floats, other: Floats) -> Floats:
    """Return the part of a convex polygon that is nearer to the place than to the other."""
    normal = other - place
    side = (corners - (place + other) / 2) @ normal
    found = []
    for number in range(len(corners)):
        after = (number + 1) % len(corners)
        here, there = side[number], side[after]
        if here <= 0:
            found.append(corners[number])
        if (here < 0 < there) or (there < 0 < here):
            share = here / (here - there)
            found.append(corners[number] + share * (corners[after] - corners[number]))
    return np.array(found)

"""Corridors: all points near a route, and those who drive along it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bools, Bounds, Floats, Outline, any_of, check_number
from nearcast.geo.segments import headings_deg, squared_distances

__all__ = ["MOST_ROUTE_POINTS", "Corridor", "heads_along"]

MOST_ROUTE_POINTS = 500
"""How many points a route may have."""


@dataclass(frozen=True)
class Corridor:
    """All points at most half the width away from a route, its ends rounded.

    Parameters
    ----------
    route
        At least two different points in kilometres, in the direction of travel.
    width_km
        The whole width.
    """

    route: tuple[tuple[float, float], ...]
    width_km: float

    def __post_init__(self) -> None:
        if len(self.route) > MOST_ROUTE_POINTS:
            raise AreaError(
                f"the route has {len(self.route):,} points; at most {MOST_ROUTE_POINTS:,} are taken"
            )
        for x, y in self.route:
            check_number(x, "x of a point of the route")
            check_number(y, "y of a point of the route")
        if len(set(self.route)) < 2:
            raise AreaError("a corridor needs a route of two different points or more")
        if check_number(self.width_km, "width of the corridor") <= 0:
            raise AreaError(f"a corridor of width {self.width_km} km is empty")

    @cached_property
    def bounds(self) -> Bounds:
        """The rectangle around it."""
        points = np.array(self.route)
        (west, south), (east, north) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        return Bounds(west, south, east, north).grown(self.width_km / 2)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of the rectangle around it."""
        west, south, east, north = self.bounds
        return (west + east) / 2, (south + north) / 2

    @cached_property
    def _segments(self) -> tuple[Floats, Floats]:
        points = np.array(self.route)
        moves = (points[1:] != points[:-1]).any(axis=1)
        return points[:-1][moves], points[1:][moves]

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are near the route; the border counts."""
        return any_of(self._near(x_km, y_km))

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Tell which points are near a part of the route that they head along."""
        directions = headings_deg(*self._segments)[:, None]
        along = heads_along(heading_deg[None, :], directions, tolerance_deg)
        return any_of(self._near(x_km, y_km) & along)

    def moved(self, east_km: float, north_km: float) -> Corridor:
        """Return the same corridor elsewhere."""
        return Corridor(tuple((x + east_km, y + north_km) for x, y in self.route), self.width_km)

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both."""
        x, y = self.route[0]
        if outline.contains(np.array([x]), np.array([y]))[0]:
            return True
        return outline.distance_to_sides_km(self.route) <= self.width_km / 2

    def covers(self, outline: Outline) -> bool:
        """Tell whether one straight part of it has all of the polygon."""
        corners = np.array(outline.corners)
        return bool(self._near(corners[:, 0], corners[:, 1]).all(axis=1).any())

    def _near(self, x_km: Floats, y_km: Floats) -> Bools:
        near: Bools = squared_distances(x_km, y_km, *self._segments) <= (self.width_km / 2) ** 2
        return near


def heads_along(heading_deg: Floats, direction_deg: Floats | float, tolerance_deg: float) -> Bools:
    """Tell which headings differ from the direction by at most the tolerance."""
    turned = (heading_deg - direction_deg + 180) % 360 - 180
    along: Bools = np.abs(turned) <= tolerance_deg
    return along

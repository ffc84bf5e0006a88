"""Circle, upright rectangle, union and difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bools, Bounds, Floats, Outline, Shape, any_of, check_number

__all__ = ["MOST_PARTS", "Circle", "Difference", "Rectangle", "Union"]

MOST_PARTS = 64
"""How many shapes a union may have."""

_NO_DIRECTION = "only a corridor has a direction of its own; give the heading in degrees"


@dataclass(frozen=True, slots=True)
class Circle:
    """All points at most a radius away from the centre."""

    x_km: float
    y_km: float
    radius_km: float

    def __post_init__(self) -> None:
        check_number(self.x_km, "x of the circle's centre")
        check_number(self.y_km, "y of the circle's centre")
        if check_number(self.radius_km, "radius of the circle") <= 0:
            raise AreaError(f"a circle of radius {self.radius_km} km is empty")

    @property
    def bounds(self) -> Bounds:
        """The square around the circle."""
        return Bounds(self.x_km, self.y_km, self.x_km, self.y_km).grown(self.radius_km)

    @property
    def centre(self) -> tuple[float, float]:
        """Its centre."""
        return self.x_km, self.y_km

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are inside; the border counts."""
        east, north = x_km - self.x_km, y_km - self.y_km
        inside: Bools = east * east + north * north <= self.radius_km * self.radius_km
        return inside

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Refuse: a circle has no direction."""
        raise AreaError(_NO_DIRECTION)

    def moved(self, east_km: float, north_km: float) -> Circle:
        """Return the same circle elsewhere."""
        return Circle(self.x_km + east_km, self.y_km + north_km, self.radius_km)

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both."""
        if _has(outline, self.centre):
            return True
        return outline.distance_to_sides_km([self.centre]) <= self.radius_km

    def covers(self, outline: Outline) -> bool:
        """Tell whether all of the polygon is inside."""
        return bool(self.contains(*_columns(outline)).all())


@dataclass(frozen=True, slots=True)
class Rectangle:
    """An upright rectangle."""

    bounds: Bounds

    def __post_init__(self) -> None:
        for name, value in self.bounds._asdict().items():
            check_number(value, f"{name.partition('_')[0]} of the rectangle")
        west, south, east, north = self.bounds
        if west >= east or south >= north:
            raise AreaError(
                f"the rectangle from ({west:g}, {south:g}) to ({east:g}, {north:g}) is empty"
            )

    @property
    def centre(self) -> tuple[float, float]:
        """Its middle."""
        west, south, east, north = self.bounds
        return (west + east) / 2, (south + north) / 2

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are inside; the border counts."""
        west, south, east, north = self.bounds
        inside: Bools = (x_km >= west) & (x_km <= east) & (y_km >= south) & (y_km <= north)
        return inside

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Refuse: a rectangle has no direction."""
        raise AreaError(_NO_DIRECTION)

    def moved(self, east_km: float, north_km: float) -> Rectangle:
        """Return the same rectangle elsewhere."""
        west, south, east, north = self.bounds
        return Rectangle(Bounds(west + east_km, south + north_km, east + east_km, north + north_km))

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both."""
        if not self.bounds.meets(outline.bounds):
            return False
        west, south, east, north = self.bounds
        path = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        return (
            bool(self.contains(*_columns(outline)).any())
            or _has(outline, (west, south))
            or outline.distance_to_sides_km(path) == 0
        )

    def covers(self, outline: Outline) -> bool:
        """Tell whether all of the polygon is inside."""
        return bool(self.contains(*_columns(outline)).all())


@dataclass(frozen=True, slots=True)
class Union:
    """All points of some of the shapes."""

    parts: tuple[Shape, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise AreaError("a union of no shapes is empty")
        if len(self.parts) > MOST_PARTS:
            raise AreaError(f"a union of {len(self.parts)} shapes; at most {MOST_PARTS} are taken")

    @property
    def bounds(self) -> Bounds:
        """The rectangle around all shapes."""
        return reduce(Bounds.joined, (part.bounds for part in self.parts))

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of the rectangle around all shapes."""
        return Rectangle(self.bounds).centre

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are in some shape."""
        return any_of([part.contains(x_km, y_km) for part in self.parts])

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Tell which points are in some shape and head along it."""
        return any_of(
            [part.contains_along(x_km, y_km, heading_deg, tolerance_deg) for part in self.parts]
        )

    def moved(self, east_km: float, north_km: float) -> Union:
        """Return the same shapes elsewhere."""
        return Union(tuple(part.moved(east_km, north_km) for part in self.parts))

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both."""
        return any(part.meets(outline) for part in self.parts)

    def covers(self, outline: Outline) -> bool:
        """Tell whether one of the shapes has all of the polygon."""
        return any(part.covers(outline) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Difference:
    """All points of one shape that are not in the other."""

    shape: Shape
    without: Shape

    @property
    def bounds(self) -> Bounds:
        """The rectangle around the first shape."""
        return self.shape.bounds

    @property
    def centre(self) -> tuple[float, float]:
        """The centre of the first shape."""
        return self.shape.centre

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are in the first shape alone."""
        return self.shape.contains(x_km, y_km) & ~self.without.contains(x_km, y_km)

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Tell which points head along the first shape and are not in the other."""
        along = self.shape.contains_along(x_km, y_km, heading_deg, tolerance_deg)
        return along & ~self.without.contains(x_km, y_km)

    def moved(self, east_km: float, north_km: float) -> Difference:
        """Return the same difference elsewhere."""
        return Difference(
            self.shape.moved(east_km, north_km), self.without.moved(east_km, north_km)
        )

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point may be in both."""
        return self.shape.meets(outline) and not self.without.covers(outline)

    def covers(self, outline: Outline) -> bool:
        """Tell whether all of the polygon is in the first shape alone."""
        return self.shape.covers(outline) and not self.without.meets(outline)


def _columns(outline: Outline) -> tuple[Floats, Floats]:
    corners = np.array(outline.corners)
    return corners[:, 0], corners[:, 1]


def _has(outline: Outline, point: tuple[float, float]) -> bool:
    return bool(outline.contains(np.array([point[0]]), np.array([point[1]]))[0])

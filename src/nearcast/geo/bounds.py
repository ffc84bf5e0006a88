"""The smallest upright rectangle around a shape, and what all shapes can be asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nearcast.errors import AreaError

__all__ = ["Bools", "Bounds", "Floats", "Outline", "Shape", "any_of", "check_number"]

_LARGEST_NUMBER = 1e12
"""So that no square and no product of two overflows."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Bounds(NamedTuple):
    """An upright rectangle in kilometres."""

    west_km: float
    south_km: float
    east_km: float
    north_km: float

    def meets(self, other: Bounds) -> bool:
        """Tell whether the rectangles share a point."""
        return (
            self.west_km <= other.east_km
            and other.west_km <= self.east_km
            and self.south_km <= other.north_km
            and other.south_km <= self.north_km
        )

    def joined(self, other: Bounds) -> Bounds:
        """Return the smallest rectangle around both."""
        return Bounds(
            min(self.west_km, other.west_km),
            min(self.south_km, other.south_km),
            max(self.east_km, other.east_km),
            max(self.north_km, other.north_km),
        )

    def grown(self, margin_km: float) -> Bounds:
        """Return the rectangle with a margin on each side."""
        return Bounds(
            self.west_km - margin_km,
            self.south_km - margin_km,
            self.east_km + margin_km,
            self.north_km + margin_km,
        )


class Outline(Protocol):
    """What a shape must know of a polygon to say whether they meet: see ``polygon``."""

    @property
    def bounds(self) -> Bounds:
        """The rectangle around it."""
        ...

    @property
    def corners(self) -> Sequence[tuple[float, float]]:
        """All corners."""
        ...

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are inside."""
        ...

    def distance_to_sides_km(self, path: Sequence[tuple[float, float]]) -> float:
        """Return the least distance between the sides and a path of one point or more."""
        ...


class Shape(Protocol):
    """A part of the plane. All answers are exact to the rounding of doubles."""

    @property
    def bounds(self) -> Bounds:
        """The rectangle around it."""
        ...

    @property
    def centre(self) -> tuple[float, float]:
        """What "nearest" is measured from."""
        ...

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are inside."""
        ...

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Tell which points are inside and head along the shape; a shape may have no direction."""
        ...

    def moved(self, east_km: float, north_km: float) -> Shape:
        """Return the same shape elsewhere."""
        ...

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both; a difference may say yes wrongly, never no."""
        ...

    def covers(self, outline: Outline) -> bool:
        """Tell whether all of the polygon is inside; a union may say no wrongly, never yes."""
        ...


def any_of(answers: Bools | Sequence[Bools]) -> Bools:
    """Return, for each point, whether some of the answers [., point] is yes."""
    found: Bools = np.logical_or.reduce(answers, axis=0)
    return found


def check_number(value: object, what: str) -> float:
    """Return a finite number; AreaError with its name when it is another thing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AreaError(f"{what} is {value!r:.60}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise AreaError(f"{what} is {number}, not a finite number")
    if abs(number) > _LARGEST_NUMBER:
        raise AreaError(f"{what} is {number:g}; at most {_LARGEST_NUMBER:g} is taken")
    return number

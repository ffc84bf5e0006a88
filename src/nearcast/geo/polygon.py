"""Polygons with holes, checked when they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bools, Bounds, Floats, Outline, check_number
from nearcast.geo.segments import first_crossing, least_distance_km, overlapping_pairs

__all__ = ["MOST_CORNERS", "Polygon", "SideTable"]

MOST_CORNERS = 500
"""Of all rings together. The check for crossings takes up to 25 ms for so many."""

_LEAST_RISE_KM = 1e-12
"""A side that rises less is taken for level, so that no slope overflows."""

Ring = Sequence[tuple[float, float]]


class SideTable(NamedTuple):
    """Corners of all rings one after the other, and the lines between neighbours; columns [., 1].

    Between the last corner of a ring and the first of the next is no side: a line that is east of
    nothing.
    """

    corner_y: Floats
    east_per_north: Floats
    x_at_zero: Floats


@dataclass(frozen=True)
class Polygon:
    """What an odd number of rings go around: outer borders, and holes in them.

    A point on a side that two polygons share is in exactly one of them, so that areas of coverage
    leave no gap and no overlap.

    Parameters
    ----------
    rings
        Closed rings in kilometres; the first corner may be repeated at the end of each.
    """

    rings: tuple[tuple[tuple[float, float], ...], ...]

    def __post_init__(self) -> None:
        rings = tuple(_open(ring) for ring in self.rings)
        object.__setattr__(self, "rings", rings)
        if not rings:
            raise AreaError("a polygon without a ring is empty")
        count = sum(map(len, rings))
        if count > MOST_CORNERS:
            raise AreaError(
                f"the polygon has {count:,} corners; at most {MOST_CORNERS:,} are taken"
            )
        for number, ring in enumerate(rings, 1):
            _check_ring(ring, f"ring {number} of the polygon" if number > 1 else "the polygon")
        self._check_crossings()

    @classmethod
    def around(cls, *rings: Ring) -> Polygon:
        """Return the polygon with these rings."""
        return cls(tuple(tuple((float(x), float(y)) for x, y in ring) for ring in rings))

    @cached_property
    def bounds(self) -> Bounds:
        """The rectangle around all rings."""
        corners = np.array(self.corners)
        (west, south), (east, north) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
        return Bounds(west, south, east, north)

    @property
    def corners(self) -> list[tuple[float, float]]:
        """All corners."""
        return [corner for ring in self.rings for corner in ring]

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of the rectangle around it."""
        west, south, east, north = self.bounds
        return (west + east) / 2, (south + north) / 2

    @cached_property
    def sides(self) -> tuple[Floats, Floats]:
        """Where sides start and end, [side, 2] each."""
        ends = [corner for ring in self.rings for corner in (*ring[1:], ring[0])]
        return np.array(self.corners), np.array(ends)

    @cached_property
    def table(self) -> SideTable:
        """The sides as the test of points wants them."""
        corners = np.array([corner for ring in self.rings for corner in (*ring, ring[0])])
        starts, ends = corners[:-1], corners[1:]
        # from the lower end upwards, so that a side is the same number for both its neighbours
        upwards = (starts[:, 1] < ends[:, 1])[:, None]
        low, high = np.where(upwards, starts, ends), np.where(upwards, ends, starts)
        rise = high[:, 1] - low[:, 1]
        level = rise < _LEAST_RISE_KM
        slope = np.where(level, 0, high[:, 0] - low[:, 0]) / np.where(level, 1, rise)
        x_at_zero = low[:, 0] - low[:, 1] * slope
        between_rings = np.cumsum([len(ring) + 1 for ring in self.rings])[:-1] - 1
        slope[between_rings], x_at_zero[between_rings] = 0, -np.inf
        columns = (corners[:, 1], slope, x_at_zero)
        return SideTable(*(column[:, None].copy() for column in columns))

    def contains(self, x_km: Floats, y_km: Floats) -> Bools:
        """Tell which points are inside: those with an odd number of sides to their east."""
        corner_y, east_per_north, x_at_zero = self.table
        above = y_km >= corner_y
        side_x = east_per_north * y_km
        side_x += x_at_zero
        inside = x_km < side_x
        inside &= above[1:] ^ above[:-1]
        odd: Bools = np.bitwise_xor.reduce(inside, axis=0)
        return odd

    def contains_along(
        self, x_km: Floats, y_km: Floats, heading_deg: Floats, tolerance_deg: float
    ) -> Bools:
        """Refuse: a polygon has no direction."""
        raise AreaError("only a corridor has a direction of its own; give the heading in degrees")

    def moved(self, east_km: float, north_km: float) -> Polygon:
        """Return the same polygon elsewhere."""
        rings = tuple(tuple((x + east_km, y + north_km) for x, y in ring) for ring in self.rings)
        elsewhere = object.__new__(Polygon)  # was checked where it came from
        object.__setattr__(elsewhere, "rings", rings)
        return elsewhere

    def distance_to_sides_km(self, path: Ring) -> float:
        """Return the least distance between the sides and a path of one point or more."""
        return least_distance_km(path, *self.sides)

    def meets(self, outline: Outline) -> bool:
        """Tell whether some point is in both."""
        if not self.bounds.meets(outline.bounds):
            return False
        return (
            _has_any(self, outline.corners[:1])
            or _has_any(outline, [ring[0] for ring in self.rings])
            or any(outline.distance_to_sides_km([*ring, ring[0]]) == 0 for ring in self.rings)
        )

    def covers(self, outline: Outline) -> bool:
        """Tell whether all of the polygon is inside, no side touched."""
        return (
            _has_any(self, outline.corners[:1])
            and not _has_any(outline, [ring[0] for ring in self.rings])
            and all(outline.distance_to_sides_km([*ring, ring[0]]) > 0 for ring in self.rings)
        )

    def _check_crossings(self) -> None:
        starts, ends = self.sides
        first, second = overlapping_pairs(starts, ends)
        # neighbours share a corner; they are wrong only where one runs back over the other
        shared = (ends[first] == starts[second]).all(axis=1) | (ends[second] == starts[first]).all(
            axis=1
        )
        one, other = first[~shared], second[~shared]
        at = first_crossing(starts, ends, one, starts, ends, other)
        if at is None:
            one, other = first[shared], second[shared]
            a, b = ends[one] - starts[one], ends[other] - starts[other]
            back = (a[:, 0] * b[:, 1] == a[:, 1] * b[:, 0]) & ((a * b).sum(axis=1) < 0)
            at = int(np.argmax(back)) if back.any() else None
        if at is not None:
            self._refuse_crossing(starts[one[at]], ends[one[at]], starts[other[at]])

    def _refuse_crossing(self, start: Floats, end: Floats, other: Floats) -> None:
        raise AreaError(
            f"the polygon crosses itself: its side from ({start[0]:g}, {start[1]:g}) to "
            f"({end[0]:g}, {end[1]:g}) meets the one that begins at ({other[0]:g}, {other[1]:g})"
        )


def _open(ring: Ring) -> tuple[tuple[float, float], ...]:
    """Return the ring without a corner that is there twice in a row."""
    return tuple(
        (corner[0], corner[1])
        for corner, after in zip(ring, (*ring[1:], *ring[:1]), strict=True)
        if corner != after or len(ring) == 1
    )


def _check_ring(ring: Ring, name: str) -> None:
    for x, y in ring:
        check_number(x, f"x of a corner of {name}")
        check_number(y, f"y of a corner of {name}")
    if len(ring) < 3:
        raise AreaError(f"{name} has {len(ring)} different corners and is empty; 3 are the least")


def _has_any(outline: Outline, points: Ring) -> bool:
    columns = np.array(points)
    return bool(outline.contains(columns[:, 0], columns[:, 1]).any())

"""Areas of interest: a shape, and who in it is meant, when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bools, Floats, Shape, check_number
from nearcast.geo.corridor import heads_along
from nearcast.geo.point_index import PointIndex

__all__ = ["MOST_KMPS", "AreaOfInterest", "Heading", "Velocity"]

MOST_KMPS = 1.0
"""How fast an area may move, east or north."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heading:
    """Who drives in a direction.

    Parameters
    ----------
    direction_deg
        Clockwise from north; None for the direction of the corridor at each place.
    tolerance_deg
        How far a heading may differ to either side.
    """

    direction_deg: float | None
    tolerance_deg: float = 45.0

    def __post_init__(self) -> None:
        if self.direction_deg is not None:
            check_number(self.direction_deg, "heading")
        if not 0 < check_number(self.tolerance_deg, "tolerance of the heading") <= 180:
            raise AreaError(
                f"tolerance of the heading is {self.tolerance_deg:g}, not above 0 and at most 180"
            )


@dataclass(frozen=True, slots=True)
class Velocity:
    """How an area moves from the beginning of its validity on."""

    east_kmps: float
    north_kmps: float

    def __post_init__(self) -> None:
        for value in (self.east_kmps, self.north_kmps):
            if abs(check_number(value, "velocity")) > MOST_KMPS:
                raise AreaError(f"the area moves {value:g} km/s; at most {MOST_KMPS:g} are taken")


@dataclass(frozen=True, slots=True)
class AreaOfInterest:
    """Who is meant: all in a shape, or those of them who drive in a direction, while it is valid.

    Parameters
    ----------
    shape
        Where, at the beginning of the validity.
    heading
        None: all directions, and also who has none.
    velocity
        None: the area stays where it is.
    nearest
        Only this number of clients, those nearest to the centre; None: all.
    valid_from_s, valid_until_s
        When it counts, the end excluded.
    """

    shape: Shape
    heading: Heading | None = None
    velocity: Velocity | None = None
    nearest: int | None = None
    valid_from_s: float = -math.inf
    valid_until_s: float = math.inf

    def __post_init__(self) -> None:
        if math.isnan(self.valid_from_s) or math.isnan(self.valid_until_s):
            raise AreaError("the validity is not a number")
        if self.valid_until_s <= self.valid_from_s:
            raise AreaError(
                f"the validity ends at {self.valid_until_s:g} s, "
                f"not after its beginning at {self.valid_from_s:g} s"
            )
        if self.velocity is not None and math.isinf(self.valid_from_s):
            raise AreaError("an area that moves needs a beginning of its validity")
        if self.nearest is not None and self.nearest < 1:
            raise AreaError(f"the {self.nearest} nearest clients are none")
        if self.heading is not None and self.heading.direction_deg is None:
            nobody = np.empty(0)
            self.shape.contains_along(nobody, nobody, nobody, 180)  # refuses what has no direction

    def is_valid(self, now_s: float) -> bool:
        """Tell whether the area counts now."""
        return self.valid_from_s <= now_s < self.valid_until_s

    def shape_at(self, now_s: float) -> Shape:
        """Return where the area is now."""
        if self.velocity is None:
            return self.shape
        elapsed_s = now_s - self.valid_from_s
        return self.shape.moved(
            self.velocity.east_kmps * elapsed_s, self.velocity.north_kmps * elapsed_s
        )

    def selects(self, x_km: float, y_km: float, heading_deg: float | None, now_s: float) -> bool:
        """Tell one client whether it is meant, as it does when a message arrives.

        How near others are it cannot know: ``nearest`` is left to the server.
        """
        return self.selects_each([(x_km, y_km)], [heading_deg], now_s)[0]

    def selects_each(
        self,
        places_km: Sequence[tuple[float, float]],
        headings_deg: Sequence[float | None],
        now_s: float,
    ) -> list[bool]:
        """Tell of each of some clients whether it is meant; many cost little more than one."""
        if not self.is_valid(now_s) or not places_km:
            return [False] * len(places_km)
        x_km, y_km = np.array(places_km, dtype=np.float64).T
        headings = np.array([math.nan if one is None else one for one in headings_deg])
        return [bool(one) for one in self._chosen(self.shape_at(now_s), x_km, y_km, headings)]

    def members(
        self, index: PointIndex, x_km: Floats, y_km: Floats, heading_deg: Floats, now_s: float
    ) -> Indices:
        """Return the points of the index that are meant, in ascending order.

        Parameters
        ----------
        x_km, y_km, heading_deg
            Of all points, as the index has them; a heading may be NaN, for one who has none.
        """
        if not self.is_valid(now_s):
            return np.empty(0, np.int64)
        shape = self.shape_at(now_s)
        found = index.inside(shape)
        if self.heading is not None:
            there = x_km[found], y_km[found], heading_deg[found]
            found = found[self._chosen(shape, *there)]
        found.sort()
        if self.nearest is not None and len(found) > self.nearest:
            x, y = shape.centre
            away = np.hypot(x_km[found] - x, y_km[found] - y)
            found = np.sort(found[np.argsort(away, kind="stable")[: self.nearest]])
        return found

    def _chosen(self, shape: Shape, x_km: Floats, y_km: Floats, heading_deg: Floats) -> Bools:
        if self.heading is None:
            return shape.contains(x_km, y_km)
        direction, tolerance = self.heading.direction_deg, self.heading.tolerance_deg
        if direction is None:
            return shape.contains_along(x_km, y_km, heading_deg, tolerance)
        return shape.contains(x_km, y_km) & heads_along(heading_deg, direction, tolerance)

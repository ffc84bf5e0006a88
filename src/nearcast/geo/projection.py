"""From WGS84 degrees to a plane in kilometres and back, by a local transverse Mercator projection.

The projection is true to scale on the meridian of its centre and stretches distances by
d^2 / (2 R^2) at d km east or west of it: 0.0003 % at 15 km, 0.03 % at 150 km, 0.08 % at
`LARGEST_REACH_KM`, beyond which positions should not be taken for a plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "LARGEST_REACH_KM",
    "LocalProjection",
    "around_direction",
    "mean_direction",
    "projection_around",
    "projection_at",
]

Floats = npt.NDArray[np.float64]

LARGEST_REACH_KM = 250.0
"""How far from the centre a position may be."""


@dataclass(frozen=True, slots=True)
class LocalProjection:
    """A plane that touches the earth along the meridian of (latitude, longitude)."""

    latitude: float
    longitude: float
    west_km: float = 0.0
    """What is taken off x: the left edge of the field lies so far east of the centre."""
    south_km: float = 0.0
    """What is taken off y: the lower edge of the field lies so far north of the centre."""

    def to_plane(self, latitude: Floats, longitude: Floats) -> tuple[Floats, Floats]:
        """Return (x_km, y_km), east and north of the field's lower left corner."""
        east_m, north_m = _proj(self.latitude, self.longitude)(longitude, latitude)
        return np.asarray(east_m) / 1000 - self.west_km, np.asarray(north_m) / 1000 - self.south_km

    def to_degrees(self, x_km: Floats, y_km: Floats) -> tuple[Floats, Floats]:
        """Return (latitude, longitude) of points of the plane."""
        longitude, latitude = _proj(self.latitude, self.longitude)(
            (x_km + self.west_km) * 1000, (y_km + self.south_km) * 1000, inverse=True
        )
        return np.asarray(latitude), np.asarray(longitude)

    def reach_km(self, latitude: Floats, longitude: Floats) -> Floats:
        """Return how far positions are from the centre along the earth, at any distance."""
        from pyproj import Geod

        centre = np.full(len(latitude), self.longitude), np.full(len(latitude), self.latitude)
        return np.asarray(Geod(ellps="WGS84").inv(*centre, longitude, latitude)[2]) / 1000


@lru_cache(16)
def _proj(latitude: float, longitude: float) -> Any:
    from pyproj import Proj

    return Proj(proj="tmerc", lat_0=latitude, lon_0=longitude, k=1, ellps="WGS84", units="m")


def projection_around(latitude: Floats, longitude: Floats) -> LocalProjection:
    """Return the projection centred on the median position, so that one stray row moves nothing."""
    angle = np.radians(longitude)
    middle = mean_direction(float(np.sin(angle).mean()), float(np.cos(angle).mean()))
    around = np.median(around_direction(longitude, middle))
    return projection_at(float(np.median(latitude)), middle, float(around))


def mean_direction(mean_sine: float, mean_cosine: float) -> float:
    """Return the longitude that others are compared around, so that 179 and -179 are neighbours."""
    return float(np.degrees(np.arctan2(mean_sine, mean_cosine)))


def around_direction(longitude: Floats, middle: float) -> Floats:
    """Return how far east of the middle longitudes are, -180 to 180."""
    return (longitude - middle + 180) % 360 - 180


def projection_at(latitude: float, middle: float, around: float) -> LocalProjection:
    """Return the projection centred `around` degrees east of the middle."""
    return LocalProjection(latitude, (middle + around + 180) % 360 - 180)

"""Who is in the area of an alert: all vehicles are looked at, one by one; no index."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from math import hypot

import numpy as np

__all__ = ["Inside", "brute_force", "by_loops", "by_shapely"]

Places = Mapping[str, tuple[float, float]]
Inside = Callable[[Places, float, float, float], frozenset[str]]
"""Of vehicles and their places, those in a circle around (x, y) in km."""


def brute_force() -> tuple[str, Inside]:
    """Return by what, and how: shapely, which shares no code with nearcast, where it is there."""
    if importlib.util.find_spec("shapely") is None:
        return "loops", by_loops
    return "shapely", by_shapely


def by_loops(places: Places, x_km: float, y_km: float, radius_km: float) -> frozenset[str]:
    """Return who is inside, by distances."""
    return frozenset(
        name
        for name, (at_x, at_y) in places.items()
        if hypot(at_x - x_km, at_y - y_km) <= radius_km
    )


def by_shapely(places: Places, x_km: float, y_km: float, radius_km: float) -> frozenset[str]:
    """Return who is inside, by shapely's distances."""
    import shapely

    centre = shapely.Point(x_km, y_km)
    points = shapely.points(np.array(list(places.values()), dtype=np.float64).reshape(-1, 2))
    found = shapely.dwithin(points, centre, radius_km)
    return frozenset(name for name, inside in zip(places, found, strict=True) if inside)

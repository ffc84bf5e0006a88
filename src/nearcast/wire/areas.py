"""Areas of interest in messages and subscriptions: texts in kilometres, read once.

The geometry is imported when the first area comes: a program that uses none does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from nearcast.errors import AreaError, WireError

if TYPE_CHECKING:
    from nearcast.geo.area import AreaOfInterest
    from nearcast.geo.bounds import Bounds

__all__ = [
    "FURTHEST_KM",
    "area_of",
    "bounds_of",
    "check_area",
    "check_places",
    "heading_of",
    "is_place",
]

FURTHEST_KM = 1e9
"""From the origin, of any place: with places beyond it nobody has to compute."""


@lru_cache(4_096)
def area_of(text: str) -> AreaOfInterest:
    """Return the area that a text describes; AreaError says what is wrong."""
    from nearcast.geo.area_text import read_area

    return read_area(text)


def bounds_of(text: str, now_s: float) -> Bounds:
    """Return a rectangle around an area, where it is now."""
    return area_of(text).shape_at(now_s).bounds


def heading_of(direction_deg: float, speed_mps: float) -> float | None:
    """Return where who reports this is heading; None: it says nothing of it."""
    return direction_deg if direction_deg or speed_mps else None


def is_place(x_km: float, y_km: float) -> bool:
    """Tell whether somebody or something may be there."""
    return abs(x_km) <= FURTHEST_KM and abs(y_km) <= FURTHEST_KM


def check_places(places: Iterable[tuple[float, float]]) -> None:
    """Raise WireError when a place is none, or too far away."""
    for x_km, y_km in places:
        if not is_place(x_km, y_km):
            raise WireError(f"a client cannot be at ({x_km:g}, {y_km:g})")


def check_area(text: str) -> None:
    """Raise WireError when a text is no area that a message or subscription may have."""
    try:
        area = area_of(text)
    except AreaError as error:
        raise WireError(f"area, {error}") from None
    if area.nearest is not None and area.heading is not None:
        raise WireError("area, `nearest` with a heading: brokers know places, not headings")

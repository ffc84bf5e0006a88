"""Shapes for tests, and plain answers about them in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds, Shape
from nearcast.geo.corridor import Corridor
from nearcast.geo.polygon import Polygon
from nearcast.geo.shapes import Circle, Difference, Rectangle, Union

__all__ = ["FIELD", "is_inside", "points", "polygons", "shapes"]

FIELD = Bounds(0.0, 0.0, 16.0, 16.0)

_place = st.integers(-16, 144).map(lambda eighth: eighth / 8)
points = st.tuples(_place, _place)


@st.composite
def polygons(draw: st.DrawFn) -> Polygon:
    """Draw a polygon of corners in turn around a centre, sometimes with a hole in its middle."""
    x, y = draw(points)
    count = draw(st.integers(3, 12))
    turn = draw(st.floats(0, 1))
    radii = draw(st.lists(st.floats(1, 5), min_size=count, max_size=count))
    rings = [_ring(x, y, radii, turn)]
    if count >= 6 and draw(st.booleans()):
        rings.append(_ring(x, y, [0.25] * draw(st.integers(3, 5)), turn))
    return Polygon.around(*rings)


def _ring(x: float, y: float, radii: list[float], turn: float) -> list[tuple[float, float]]:
    angles = [2 * math.pi * (number + turn) / len(radii) for number in range(len(radii))]
    return [
        (x + radius * math.cos(angle), y + radius * math.sin(angle))
        for radius, angle in zip(radii, angles, strict=True)
    ]


_circles = st.builds(lambda at, radius: Circle(at[0], at[1], radius), points, st.floats(0.01, 6))
_rectangles = st.builds(
    lambda at, width, height: Rectangle(Bounds(at[0], at[1], at[0] + width, at[1] + height)),
    points,
    st.floats(0.01, 6),
    st.floats(0.01, 6),
)
_corridors = st.builds(
    lambda route, width: Corridor(tuple(route), width),
    st.lists(points, min_size=2, max_size=6, unique=True),
    st.floats(0.01, 3),
)
_single = _circles | _rectangles | _corridors | polygons()
shapes: st.SearchStrategy[Shape] = st.one_of(
    _single,
    st.builds(lambda parts: Union(tuple(parts)), st.lists(_single, min_size=1, max_size=4)),
    st.builds(Difference, _single, _single),
)


def is_inside(shape: Shape, x: float, y: float) -> bool | None:
    """Tell by plain rules in fractions; None within rounding of a border."""
    if isinstance(shape, Union):
        answers = [is_inside(part, x, y) for part in shape.parts]
        return True if True in answers else None if None in answers else False
    if isinstance(shape, Difference):
        inside, out = is_inside(shape.shape, x, y), is_inside(shape.without, x, y)
        if inside is False or out is True:
            return False
        return None if inside is None or out is None else True
    if isinstance(shape, Circle):
        away = math.dist((x, y), shape.centre)
        return _within(away, shape.radius_km)
    if isinstance(shape, Rectangle):
        west, south, east, north = shape.bounds
        return west <= x <= east and south <= y <= north
    if isinstance(shape, Corridor):
        legs = zip(shape.route, shape.route[1:], strict=False)
        return _within(min(_distance((x, y), *leg) for leg in legs), shape.width_km / 2)
    if isinstance(shape, Polygon):
        return _in_polygon(shape, x, y)
    raise AreaError(f"unknown shape {shape!r}")


def _in_polygon(polygon: Polygon, x: float, y: float) -> bool | None:
    odd = False
    for ring in polygon.rings:
        for start, end in zip(ring, (*ring[1:], ring[0]), strict=True):
            if _distance((x, y), start, end) < 1e-9:
                return None
            (x1, y1), (x2, y2) = sorted((start, end), key=lambda point: point[1])
            if y1 <= y < y2:
                share = (Fraction(y) - Fraction(y1)) / (Fraction(y2) - Fraction(y1))
                odd ^= Fraction(x) < Fraction(x1) + share * (Fraction(x2) - Fraction(x1))
    return odd


def _within(away: float, reach: float) -> bool | None:
    return None if abs(away - reach) < 1e-9 else away < reach


def _distance(
    point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]
) -> float:
    (x, y), (x1, y1), (x2, y2) = point, start, end
    east, north = x2 - x1, y2 - y1
    share = ((x - x1) * east + (y - y1) * north) / (east * east + north * north)
    share = min(1.0, max(0.0, share))
    return math.dist((x, y), (x1 + share * east, y1 + share * north))

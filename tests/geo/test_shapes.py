"""Shapes against plain arithmetic, and against shapely."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from geo.random_shapes import is_inside, points, polygons, shapes
from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds, Shape
from nearcast.geo.corridor import Corridor
from nearcast.geo.polygon import MOST_CORNERS, Polygon
from nearcast.geo.shapes import MOST_PARTS, Circle, Difference, Rectangle, Union

SQUARE = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]
HOLE = [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (1.0, 2.0)]


def contains(shape: Shape, x: float, y: float) -> bool:
    return bool(shape.contains(np.array([x]), np.array([y]))[0])


@given(shapes, st.lists(points, min_size=1, max_size=30))
@settings(max_examples=300, deadline=None)
def test_a_shape_contains_what_plain_arithmetic_says(
    shape: Shape, places: list[tuple[float, float]]
) -> None:
    x, y = np.array(places).T
    inside = shape.contains(x, y).tolist()
    west, south, east, north = shape.bounds
    for answer, (px, py) in zip(inside, places, strict=True):
        expected = is_inside(shape, px, py)
        if expected is not None:
            assert answer == expected
        if answer:
            assert west - 1e-9 <= px <= east + 1e-9
            assert south - 1e-9 <= py <= north + 1e-9


@given(shapes, points, st.floats(-3, 3), st.floats(-3, 3))
@settings(deadline=None)
def test_a_shape_elsewhere_contains_what_lies_there(
    shape: Shape, place: tuple[float, float], east: float, north: float
) -> None:
    x, y = place
    expected = is_inside(shape, x, y)
    near = {is_inside(shape, x + dx, y + dy) for dx in (-1e-9, 1e-9) for dy in (-1e-9, 1e-9)}
    assume(near == {expected})
    assert contains(shape.moved(east, north), x + east, y + north) == expected


@given(shapes, polygons())
@settings(max_examples=300, deadline=None)
def test_shapes_meet_when_they_share_a_point(shape: Shape, outline: Polygon) -> None:
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(-4, 20, 0.25), np.arange(-4, 20, 0.25)))
    both = shape.contains(x, y) & outline.contains(x, y)
    if both.any():
        assert shape.meets(outline)
    if shape.covers(outline):
        assert (both == outline.contains(x, y)).all()


def geometry(shapely: Any, shape: Shape) -> Any:
    """Return what shapely makes of a shape; its circles have 256 corners per quarter."""
    if isinstance(shape, Circle):
        return shapely.Point(shape.centre).buffer(shape.radius_km, 256)
    if isinstance(shape, Rectangle):
        return shapely.box(*shape.bounds)
    if isinstance(shape, Corridor):
        return shapely.LineString(shape.route).buffer(shape.width_km / 2, 256)
    if isinstance(shape, Polygon):
        return shapely.Polygon(shape.rings[0], shape.rings[1:])
    if isinstance(shape, Union):
        return shapely.union_all([geometry(shapely, part) for part in shape.parts])
    assert isinstance(shape, Difference)
    return geometry(shapely, shape.shape).difference(geometry(shapely, shape.without))


@given(shapes, polygons(), st.lists(points, min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_shapely_says_the_same(
    shape: Shape, outline: Polygon, places: list[tuple[float, float]]
) -> None:
    shapely = pytest.importorskip("shapely")
    theirs, other = geometry(shapely, shape), geometry(shapely, outline)
    x, y = np.array(places).T
    away = shapely.distance(shapely.points(x, y), theirs.boundary)
    sure = away > 1e-3
    assert (shape.contains(x, y) == shapely.contains_xy(theirs, x, y))[sure].all()
    if theirs.intersection(other).area > 1e-2:
        assert shape.meets(outline)
    elif not isinstance(shape, Difference) and theirs.distance(other) > 1e-3:
        assert not shape.meets(outline)


@given(st.lists(points, min_size=3, max_size=9))
@settings(max_examples=300, deadline=None)
def test_shapely_refuses_the_same_polygons(corners: list[tuple[float, float]]) -> None:
    shapely = pytest.importorskip("shapely")
    assume(len(set(corners)) == len(corners))
    try:
        Polygon.around(corners)
        refused = False
    except AreaError:
        refused = True
    assert refused == (not shapely.Polygon(corners).is_valid)


def test_a_point_on_a_shared_side_is_in_exactly_one_of_two_neighbours() -> None:
    west = Polygon.around([(0, 0), (2, 0), (3, 2), (0, 2)])
    east = Polygon.around([(2, 0), (5, 0), (5, 2), (3, 2)])
    for share in np.linspace(0.01, 0.99, 50):
        x, y = 2 + share, 2 * share
        assert contains(west, x, y) != contains(east, x, y)


def test_a_hole_is_not_inside() -> None:
    ring = Polygon.around(SQUARE, HOLE)
    assert contains(ring, 0.5, 0.5)
    assert not contains(ring, 1.5, 1.5)
    assert not ring.covers(Polygon.around([(0.5, 0.5), (3, 0.5), (3, 3), (0.5, 3)]))
    assert ring.covers(Polygon.around([(2.5, 2.5), (3, 2.5), (3, 3), (2.5, 3)]))


def test_who_drives_along_a_corridor_and_who_against_it() -> None:
    corridor = Corridor(((0, 0), (4, 0), (4, 4)), 1)
    x, y = np.array([1.0, 1.0, 4.0]), np.array([0.1, 0.1, 2.0])
    along = corridor.contains_along(x, y, np.array([90.0, 270.0, 10.0]), 45)
    assert along.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Circle(0, 0, 0), "radius 0 km is empty"),
        (lambda: Circle(0, math.nan, 1), "y of the circle's centre is nan, not a finite"),
        (lambda: Circle(0, 1e300, 1), "at most 1e"),
        (lambda: Rectangle(Bounds(0, 0, 0, 1)), r"from \(0, 0\) to \(0, 1\) is empty"),
        (lambda: Rectangle(Bounds(0, 0, math.inf, 1)), "east of the rectangle is inf"),
        (lambda: Polygon.around([(0, 0), (1, 1)]), "2 different corners and is empty"),
        (lambda: Polygon.around(), "without a ring"),
        (lambda: Polygon.around([(0, 0), (1, 1), (2, 2)]), "the polygon crosses itself"),
        (lambda: Polygon.around([(0, 0), (2, 2), (2, 0), (0, 2)]), "crosses itself: its side"),
        (lambda: Polygon.around(SQUARE, [(1, 1), (9, 1), (1, 2)]), r"begins at \(4, 0\)"),
        (lambda: Polygon.around([(0, 0), (1, math.nan), (1, 1)]), "y of a corner of the polygon"),
        (
            lambda: Polygon.around([(math.cos(n), math.sin(n)) for n in range(10_000)]),
            f"10,000 corners; at most {MOST_CORNERS}",
        ),
        (lambda: Corridor(((1, 1),), 1), "a route of two different points"),
        (lambda: Corridor(((1, 1), (1, 1)), 1), "two different points"),
        (lambda: Corridor(((1, 1), (2, 1)), 0), "width 0 km is empty"),
        (lambda: Corridor(((0, 0), (1, 1)) * 500, 1), "1,000 points; at most 500"),
        (lambda: Union(()), "no shapes"),
        (lambda: Union((Circle(0, 0, 1),) * 65), f"65 shapes; at most {MOST_PARTS}"),
    ],
)
def test_what_is_wrong_is_one_clear_error(make: Any, error: str) -> None:
    with pytest.raises(AreaError, match=error):
        make()

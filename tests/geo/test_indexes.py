"""The indexes against a scan of everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geo.random_shapes import FIELD, points, shapes
from nearcast.errors import AreaError
from nearcast.geo.area_index import AreaIndex
from nearcast.geo.bounds import Bounds, Shape
from nearcast.geo.point_index import PointIndex
from nearcast.geo.polygon import Polygon
from nearcast.geo.shapes import Circle, Rectangle


@given(shapes, st.integers(0, 3000), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_points_inside_are_those_of_a_scan(shape: Shape, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-4, 20, (2, count))  # some outside of the field
    index = PointIndex(FIELD)
    index.update(x, y)
    expected = np.flatnonzero(shape.contains(x, y))
    assert sorted(index.inside(shape).tolist()) == expected.tolist()


@given(points, st.integers(1, 50), st.integers(0, 500), st.integers(0, 2**32))
@settings(deadline=None)
def test_the_nearest_points_are_those_of_a_scan(
    place: tuple[float, float], wanted: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 32, (2, count)) / 2.0  # many equally far
    index = PointIndex(FIELD)
    index.update(x, y)
    away = np.hypot(x - place[0], y - place[1])
    expected = np.lexsort((np.arange(count), away))[:wanted]
    assert index.nearest(*place, wanted).tolist() == expected.tolist()


def test_a_position_that_is_no_number_is_refused_and_changes_nothing() -> None:
    index = PointIndex(FIELD)
    index.update(np.array([1.0]), np.array([1.0]))
    with pytest.raises(AreaError, match="point 1 is not finite"):
        index.update(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    assert index.inside(Circle(1, 1, 1)).tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(0, 20), shapes | st.none()), max_size=60),
    st.lists(points, min_size=1, max_size=20),
)
@settings(max_examples=150, deadline=None)
def test_the_areas_at_a_point_are_those_of_a_scan(
    steps: list[tuple[int, Shape | None]], places: list[tuple[float, float]]
) -> None:
    index: AreaIndex[int] = AreaIndex()
    kept: dict[int, Shape] = {}
    for key, shape in steps:
        if shape is not None:
            index.put(key, shape)
            kept[key] = shape
        elif key in kept:
            index.remove(key)
            del kept[key]
        x, y = places[key % len(places)]  # packs cells that later steps change
        index.at(x, y)
    assert len(index) == len(kept)
    for x, y in places:
        expected = {
            k for k, shape in kept.items() if shape.contains(np.array([x]), np.array([y]))[0]
        }
        assert sorted(index.at(x, y)) == sorted(expected)


def test_an_area_of_any_size_and_an_area_that_moves_are_found() -> None:
    index: AreaIndex[str] = AreaIndex(most_areas=4)
    index.put("earth", Circle(0, 0, 1e6))
    index.put("room", Rectangle(Bounds(3, 3, 3.001, 3.001)))
    index.put("mine", Circle(0, 0, 1))
    corners = [(3 + np.cos(n / 10), 3 + np.sin(n / 10)) for n in range(60)]
    index.put("round", Polygon.around(corners))
    assert sorted(index.at(3.0005, 3.0005)) == ["earth", "room", "round"]
    index.put("mine", Circle(3, 3, 1))
    assert sorted(index.at(3.0005, 3.0005)) == ["earth", "mine", "room", "round"]
    assert index.at(0.0, 0.0) == ["earth"]
    assert index.at(float("nan"), 0.0) == []
    with pytest.raises(AreaError, match="there are 4 areas"):
        index.put("more", Circle(0, 0, 1))

"""Areas of interest: who is meant, how areas are written, what is refused."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geo.random_shapes import FIELD, shapes
from nearcast.errors import AreaError
from nearcast.geo.area import AreaOfInterest, Heading, Velocity
from nearcast.geo.area_text import MOST_TEXT_BYTES, read_area, read_shape
from nearcast.geo.bounds import Bounds, Shape
from nearcast.geo.corridor import Corridor
from nearcast.geo.point_index import PointIndex
from nearcast.geo.polygon import Polygon
from nearcast.geo.projection import LocalProjection
from nearcast.geo.shapes import Circle, Difference, Rectangle, Union

MUNICH = LocalProjection(48.1, 11.5)


@given(
    shapes,
    st.none() | st.builds(Heading, st.floats(-720, 720), st.floats(1, 180)),
    st.none() | st.builds(Velocity, st.floats(-0.05, 0.05), st.floats(-0.05, 0.05)),
    st.none() | st.integers(1, 40),
    st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_members_are_those_that_each_would_take_itself_for(
    shape: Shape,
    heading: Heading | None,
    velocity: Velocity | None,
    nearest: int | None,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 16, (2, 300))
    headings = rng.uniform(0, 360, 300)
    headings[::10] = np.nan
    index = PointIndex(FIELD)
    index.update(x, y)
    area = AreaOfInterest(shape, heading, velocity, nearest, 100.0, 200.0)
    for now_s in (99.9, 100.0, 160.0, 200.0):
        found = area.members(index, x, y, headings, now_s).tolist()
        chosen = [
            n
            for n in range(300)
            if area.selects(x[n], y[n], None if math.isnan(headings[n]) else headings[n], now_s)
        ]
        if nearest is not None and len(chosen) > nearest:
            cx, cy = area.shape_at(now_s).centre
            chosen.sort(key=lambda n: (math.hypot(x[n] - cx, y[n] - cy), n))
            chosen = sorted(chosen[:nearest])
        assert found == chosen
        if not 100 <= now_s < 200:
            assert not found


def test_an_area_that_moves_is_where_its_velocity_takes_it() -> None:
    area = AreaOfInterest(Circle(0, 0, 1), velocity=Velocity(0.02, 0), valid_from_s=10)
    assert area.selects(2.0, 0.0, None, 110.0)
    assert not area.selects(0.0, 0.0, None, 110.0)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("POLYGON ((0 0, 2 0, 2 1, 0 1, 0 0))", Rectangle(Bounds(0, 0, 2, 1))),
        ("polygon((0 0,2 0,.5 1e0,0 0))", Polygon.around([(0, 0), (2, 0), (0.5, 1)])),
        (
            "MULTIPOLYGON (((0 0, 1 0, 0 1)), ((4 4, 5 4, 4 5)))",
            Union(
                (
                    Polygon.around([(0, 0), (1, 0), (0, 1)]),
                    Polygon.around([(4, 4), (5, 4), (4, 5)]),
                )
            ),
        ),
        (
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [5, 2]},
                "properties": {"radius_km": 2},
            },
            Circle(5, 2, 2),
        ),
        (
            {
                "type": "Feature",
                "geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
                "properties": {"width_km": 0.1},
            },
            Corridor(((0, 0), (1, 1)), 0.1),
        ),
        (
            {
                "type": "Feature",
                "geometry": {
                    "type": "GeometryCollection",
                    "geometries": [{"type": "Point", "coordinates": [0, 0]}],
                },
                "properties": {
                    "radius_km": 1,
                    "without": {"type": "Point", "coordinates": [0.5, 0]},
                },
            },
            Difference(Union((Circle(0, 0, 1),)), Circle(0.5, 0, 1)),
        ),
    ],
    ids=lambda value: None,
)
def test_a_shape_is_read(text: str | dict[str, Any], shape: Shape) -> None:
    assert read_shape(text if isinstance(text, str) else json.dumps(text)) == shape


def test_all_properties_of_an_area_are_read() -> None:
    area = read_area(
        json.dumps(
            {
                "type": "Feature",
                "geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
                "properties": {
                    "width_km": 0.1,
                    "along": True,
                    "heading_tolerance_deg": 30,
                    "velocity_kmps": [0.01, 0],
                    "nearest": 7,
                    "valid_from_s": 5,
                    "valid_until_s": 8.5,
                },
            }
        )
    )
    assert area == AreaOfInterest(
        Corridor(((0, 0), (1, 1)), 0.1), Heading(None, 30), Velocity(0.01, 0), 7, 5, 8.5
    )


def test_degrees_become_kilometres() -> None:
    shape = read_shape("POLYGON ((11.5 48.1, 11.6 48.1, 11.5 48.2))", MUNICH)
    west, south, east, north = shape.bounds
    assert (round(west, 3), round(south, 3)) == (0, 0)
    assert (round(east, 1), round(north, 1)) == (7.4, 11.1)


def feature(properties: dict[str, Any], kind: str = "Point", at: Any = (0, 0)) -> str:
    geometry = {"type": kind, "coordinates": at}
    return json.dumps({"type": "Feature", "geometry": geometry, "properties": properties})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("POLYGON ((0 0, 2 2, 2 0, 0 2))", "crosses itself"),
        ("POLYGON EMPTY", "the POLYGON is empty"),
        ("POLYGON ((0 0, 1 nan, 1 1))", "character 18: a number is wanted, not 'nan'"),
        ("POLYGON ((0 0, 1 1e999, 1 1))", "y of a point is inf"),
        ("POLYGON ((0 0, 1 1, 1 0)", r"'\)' is wanted, not 'the end'"),
        ("POLYGON ((0 0 0, 1 1, 1 0))", "two numbers"),
        ("POLYGON ((0 0, 1 1, 1 0)) x", "'x' after the end"),
        ("POLYGON ((0 0, 1 1; 1 0))", "character 19: ';' is not part"),
        ("BLOB (1 1)", "BLOB is not one of POINT"),
        ("", "name of a shape is wanted"),
        ("POINT (1 1)", "needs the property radius_km"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, NaN], [1, 1]]]}', "is nan"),
        ('{"type": "Polygon", "coordinates": []}', "coordinates is empty"),
        ('{"type": "Polygon"}', "coordinates is None, not a list"),
        ('{"type": "Polygon", "coordinates": [[1, 2]]}', "a point is 1, not a list"),
        ('{"type": "Blob"}', "the geometry is 'Blob', not one of"),
        ('{"type": "Point", "coordinates', "not JSON"),
        ('{"type": ' + "[" * 20_000, "not JSON"),
        ('{"type": "Feature", "geometry": null}', "geometry is None, not an object"),
        (feature({"radius": 2}), "unknown property 'radius'; known: radius_km"),
        (feature({"radius_km": "2"}), "radius_km is '2', not a number"),
        (feature({"radius_km": 0}), "radius 0.0 km is empty"),
        (feature({"radius_km": 1, "nearest": 0}), "the 0 nearest clients"),
        (feature({"radius_km": 1, "nearest": 1.5}), "not a whole number"),
        (feature({"radius_km": 1, "along": True}), "only a corridor has a direction"),
        (feature({"radius_km": 1, "along": 3}), "along is 3"),
        (feature({"radius_km": 1, "heading_deg": 9, "along": True}), "not both"),
        (feature({"radius_km": 1, "heading_deg": 9, "heading_tolerance_deg": 0}), "at most 180"),
        (feature({"radius_km": 1, "valid_from_s": 9, "valid_until_s": 9}), "not after"),
        (feature({"radius_km": 1, "velocity_kmps": [1, 0]}), "needs a beginning"),
        (feature({"radius_km": 1, "velocity_kmps": [1e9, 0]}), "at most 1 are"),
        (feature({"radius_km": 1, "velocity_kmps": [1]}), "not two: east and north"),
        (feature({"width_km": 1}, "LineString", [[1, 1]]), "two different points"),
        ("POLYGON ((" + "0 0, " * MOST_TEXT_BYTES, "at most 32,768"),
    ],
    ids=range(34),
)
def test_a_bad_text_is_one_clear_error(text: str, error: str) -> None:
    with pytest.raises(AreaError, match=error):
        read_area(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("POLYGON ((11 89, 12 89, 11 89.5))", "too near to a pole"),
        ("POLYGON ((179 48, -179 48, 179 49))", "crosses the date line between longitudes 179"),
        ("POLYGON ((11 48, 200 48, 11 49))", r"\(200, 48\) is not a longitude"),
        ("POLYGON ((11 48, 12 48, 11 91))", r"\(11, 91\) is not a longitude"),
        ("POLYGON ((1 48, 12 48, 11 49))", "km from the site's centre; at most 250"),
    ],
)
def test_degrees_that_no_plane_holds_are_refused(text: str, error: str) -> None:
    with pytest.raises(AreaError, match=error):
        read_area(text, MUNICH)


@given(st.text(alphabet='POLYGNEMT(), 0123.-e{}[]:"typecordinas', max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_is_an_area_or_an_area_error(text: str) -> None:
    with contextlib.suppress(AreaError):
        read_area(text)

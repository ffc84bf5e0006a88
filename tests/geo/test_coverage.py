"""Areas of coverage: each place has one server, and an area goes to those it concerns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geo.random_shapes import FIELD
from nearcast.errors import AreaError
from nearcast.geo.bounds import Bounds
from nearcast.geo.coverage import Coverage
from nearcast.geo.polygon import Polygon


@given(st.integers(1, 30), st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_the_area_of_a_server_is_where_it_is_the_nearest(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 16, (count, 2))
    coverage = Coverage(dict(enumerate(places.tolist())), FIELD)
    x, y = rng.uniform(-4, 20, (2, 2000))
    nearest = np.argmin(np.hypot(x[:, None] - places[:, 0], y[:, None] - places[:, 1]), axis=1)
    for server in range(count):
        (cell,) = coverage.areas[server]
        assert (cell.contains(x, y) == (nearest == server)).all()


def test_a_polygon_by_configuration_replaces_the_nearest_places() -> None:
    harbour = Polygon.around([(0, 0), (2, 0), (2, 2), (0, 2)])
    coverage = Coverage({"harbour": (1, 1), "town": (3, 1)}, FIELD, {"harbour": harbour})
    assert coverage.areas["harbour"] == (harbour,)
    assert [coverage.at(*place) for place in ((1, 1), (0.1, 1.9), (3, 3))] == [
        *("harbour", "harbour", "town")
    ]


def test_of_two_servers_at_one_place_the_first_covers_it() -> None:
    coverage = Coverage({"a": (1, 1), "b": (1, 1)}, FIELD)
    assert (coverage.at(1, 1), coverage.at(5, 5)) == ("a", "a")


@pytest.mark.parametrize(
    ("servers", "field", "own", "error"),
    [
        ({}, FIELD, {}, "no servers"),
        ({"a": (0.0, 0.0)}, FIELD, {"b": Polygon.around([(0, 0), (1, 0), (0, 1)])}, "server 'b'"),
        ({"a": (0.0, float("nan"))}, FIELD, {}, "place of server 'a' is nan"),
        ({"a": (0.0, 0.0)}, Bounds(0, 0, 0, 0), {}, "is empty"),
    ],
    ids=range(4),
)
def test_bad_coverage_is_refused(
    servers: dict[str, tuple[float, float]], field: Bounds, own: dict[str, Polygon], error: str
) -> None:
    with pytest.raises(AreaError, match=error):
        Coverage(servers, field, own)


def test_a_point_belongs_to_the_server_whose_polygon_has_it_or_else_to_the_nearest() -> None:
    rng = np.random.default_rng(5)
    places = {f"e{number}": tuple(rng.uniform(0, 10, 2)) for number in range(9)}
    square = Polygon.around([(0, 0), (3, 0), (3, 3), (0, 3)])
    coverage = Coverage(places, Bounds(0, 0, 10, 10), {"e4": square})
    others = {name: place for name, place in places.items() if name != "e4"}
    for x_km, y_km in rng.uniform(-5, 15, (300, 2)):
        nearest = min(others, key=lambda one: np.hypot(*(np.subtract(others[one], (x_km, y_km)))))
        expected = "e4" if 0 < x_km < 3 and 0 < y_km < 3 else nearest
        assert coverage.at(x_km, y_km) == expected


def test_near_a_border_both_servers_are_near() -> None:
    coverage = Coverage({"west": (0.0, 0.0), "east": (2.0, 0.0)}, Bounds(0, 0, 2, 2))
    assert coverage.at(1.01, 0.3) == "east"
    assert coverage.is_near("west", 1.01, 0.3, 0.02)
    assert not coverage.is_near("west", 1.03, 0.3, 0.02)

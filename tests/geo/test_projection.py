import json

import numpy as np
import pytest
from numpy.typing import NDArray
from pyproj import Geod
from shapely.geometry import Point, Polygon

from nearcast.errors import AreaError
from nearcast.geo.area_text import area_in_km, place_in_km, read_area
from nearcast.geo.projection import LARGEST_REACH_KM, LocalProjection, projection_around

CITIES = [(-37.81, 144.96), (35.68, 139.76), (52.52, 13.4), (0.0, 0.0), (64.1, -179.98)]


def positions_around(
    latitude: float, longitude: float, reach_km: float, count: int = 60
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(5)
    angle, distance_m = rng.uniform(0, 360, count), 1000 * rng.uniform(0, reach_km, count)
    centre = np.full(count, longitude), np.full(count, latitude)
    found_longitude, found_latitude, _ = Geod(ellps="WGS84").fwd(*centre, angle, distance_m)
    return np.asarray(found_latitude), np.asarray(found_longitude)


@pytest.mark.parametrize("city", CITIES)
@pytest.mark.parametrize("reach_km", [2.0, 30.0, 0.8 * LARGEST_REACH_KM])
def test_distances_on_the_plane_are_those_on_the_earth_within_a_tenth_of_a_percent(
    city: tuple[float, float], reach_km: float
) -> None:
    latitude, longitude = positions_around(*city, reach_km)
    x_km, y_km = projection_around(latitude, longitude).to_plane(latitude, longitude)
    for a in range(0, 60, 7):
        for b in range(a + 1, 60, 5):
            earth_m = Geod(ellps="WGS84").inv(longitude[a], latitude[a], longitude[b], latitude[b])
            plane_km = float(np.hypot(x_km[a] - x_km[b], y_km[a] - y_km[b]))
            assert plane_km == pytest.approx(earth_m[2] / 1000, rel=1e-3)


def test_degrees_come_back() -> None:
    latitude, longitude = positions_around(48.1, 11.6, 100)
    projection = LocalProjection(48.1, 11.6, west_km=-90.0, south_km=-80.0)
    back = projection.to_degrees(*projection.to_plane(latitude, longitude))
    np.testing.assert_allclose(back[0], latitude, atol=1e-9)
    np.testing.assert_allclose(back[1], longitude, atol=1e-9)


def test_x_grows_to_the_east_and_y_to_the_north_from_the_corner() -> None:
    projection = LocalProjection(10.0, 20.0, west_km=-3.0, south_km=-4.0)
    x_km, y_km = projection.to_plane(np.array([10.0, 10.1, 10.0]), np.array([20.0, 20.0, 20.1]))
    assert (x_km[0], y_km[0]) == pytest.approx((3.0, 4.0), abs=1e-9)
    assert x_km[1] == pytest.approx(3.0)
    assert y_km[1] > 14
    assert x_km[2] > 13


def test_positions_on_both_sides_of_the_date_line_are_neighbours() -> None:
    latitude, longitude = np.array([-17.0, -17.0, -17.1]), np.array([179.9, -179.9, 179.95])
    projection = projection_around(latitude, longitude)
    x_km, _ = projection.to_plane(latitude, longitude)
    assert abs(projection.longitude) > 179.8
    assert float(np.ptp(x_km)) == pytest.approx(21.3, abs=0.1)


def test_one_stray_position_does_not_move_the_centre() -> None:
    latitude, longitude = np.array([48.0, 48.1, 48.2, 0.0]), np.array([11.0, 11.1, 11.2, 0.0])
    projection = projection_around(latitude, longitude)
    reach_km = projection.reach_km(latitude, longitude)
    assert reach_km[:3].max() < 25
    earth_m = Geod(ellps="WGS84").inv(projection.longitude, projection.latitude, 0.0, 0.0)[2]
    assert reach_km[3] == pytest.approx(earth_m / 1000)


def test_an_area_in_degrees_is_the_same_in_km() -> None:
    """Geodesic distances decide who is in a circle; shapely, in degrees, who is in a polygon."""
    projection = LocalProjection(48.1, 11.5, west_km=-10.0, south_km=-5.0)
    rng = np.random.default_rng(5)
    feature = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [11.9, 48.2]}}
    circle = json.dumps({**feature, "properties": {"radius_km": 2}})
    corners = [(11.88, 48.18), (11.93, 48.19), (11.92, 48.22), (11.87, 48.21), (11.88, 48.18)]
    polygon = Polygon(corners)
    in_circle, in_polygon = (
        read_area(area_in_km(text, projection)) for text in (circle, polygon.wkt)
    )
    found = [0, 0]
    for longitude, latitude in rng.uniform((11.86, 48.17), (11.94, 48.23), (200, 2)).tolist():
        place = place_in_km(longitude, latitude, projection)
        away_km = Geod(ellps="WGS84").inv(11.9, 48.2, longitude, latitude)[2] / 1000
        point = Point(longitude, latitude)
        if abs(away_km - 2) > 0.01 and polygon.boundary.distance(point) > 1e-5:
            assert in_circle.selects(*place, None, 0.0) == (away_km < 2)
            assert in_polygon.selects(*place, None, 0.0) == polygon.contains(point)
            found[0] += away_km < 2
            found[1] += polygon.contains(point)
    assert min(found) > 20


@pytest.mark.parametrize(
    ("area", "problem"),
    [
        ("POINT (200 10)", "not a longitude and a latitude"),
        ("POINT (11 -89)", "too near to a pole"),
        ("POLYGON ((11 48, 11.1 48, 30 48, 11 48))", "from the site's centre"),
        ("LINESTRING (179.9 48, -179.9 48)", "crosses the date line"),
        ("POLYGON EMPTY", "empty"),
        ('{"type": "Feature", "geometry": 5}', "geometry is 5"),
        ('{"type": "Point", "coordinates": ["x", 1]}', "x of a point"),
    ],
)
def test_an_area_that_cannot_be_on_the_plane_is_one_error(area: str, problem: str) -> None:
    with pytest.raises(AreaError, match=problem):
        area_in_km(area, LocalProjection(48.1, 11.5))

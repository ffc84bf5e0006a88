"""Areas of interest as they come in: GeoJSON or well-known text, in degrees or in kilometres."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nearcast.errors import AreaError
from nearcast.geo.area import AreaOfInterest, Heading, Velocity
from nearcast.geo.bounds import Bounds, Shape, check_number
from nearcast.geo.corridor import Corridor
from nearcast.geo.polygon import Polygon
from nearcast.geo.projection import LARGEST_REACH_KM, LocalProjection
from nearcast.geo.shapes import Circle, Difference, Rectangle, Union
from nearcast.geo.wkt import geometry_of_wkt

__all__ = [
    "LARGEST_LATITUDE",
    "MOST_TEXT_BYTES",
    "area_in_km",
    "place_in_km",
    "read_area",
    "read_shape",
]

MOST_TEXT_BYTES = 32_768
LARGEST_LATITUDE = 85.0
"""Nearer to a pole a plane around a place is none."""

_PROPERTIES = (
    *("radius_km", "width_km", "heading_deg", "along", "heading_tolerance_deg"),
    *("velocity_kmps", "nearest", "valid_from_s", "valid_until_s", "without"),
)

Place = tuple[float, float]
Points = list[Place]


def read_area(text: str, projection: LocalProjection | None = None) -> AreaOfInterest:
    """Return the area that a GeoJSON feature or geometry, or well-known text, describes.

    Parameters
    ----------
    text
        At most `MOST_TEXT_BYTES`. Properties of a feature: ``radius_km`` of a point, ``width_km``
        of a line, ``heading_deg`` or ``along`` with ``heading_tolerance_deg``, ``velocity_kmps``
        (east, north), ``nearest``, ``valid_from_s``, ``valid_until_s``, ``without`` (a geometry).
    projection
        For text in WGS84 degrees (longitude, latitude); without it numbers are kilometres.

    Raises
    ------
    AreaError
        With what is wrong; there is no other error.
    """
    document = _document(text)
    properties: Mapping[str, Any] = {}
    if document.get("type") == "Feature":
        properties = _mapping(document.get("properties") or {}, "properties")
        document = _mapping(document.get("geometry"), "geometry")
    if unknown := [name for name in properties if name not in _PROPERTIES]:
        raise AreaError(f"unknown property {unknown[0]!r:.40}; known: {', '.join(_PROPERTIES)}")
    shape = _shape(document, properties, projection)
    if "without" in properties:
        without = _mapping(properties["without"], "without")
        shape = Difference(shape, _shape(without, properties, projection))
    nearest = properties.get("nearest")
    if nearest is not None and (isinstance(nearest, bool) or not isinstance(nearest, int)):
        raise AreaError(f"nearest is {nearest!r:.40}, not a whole number")
    return AreaOfInterest(
        shape,
        _heading(properties),
        _velocity(properties),
        nearest,
        _time(properties, "valid_from_s", -math.inf),
        _time(properties, "valid_until_s", math.inf),
    )


def read_shape(text: str, projection: LocalProjection | None = None) -> Shape:
    """Return the shape of a text as `read_area` takes it."""
    return read_area(text, projection).shape


def area_in_km(text: str, projection: LocalProjection) -> str:
    """Return an area that is given in WGS84 degrees as GeoJSON in kilometres.

    Raises
    ------
    AreaError
        When a point cannot be on the plane; other mistakes are left to who reads the area.
    """
    return json.dumps(_in_km(_document(text), projection), separators=(",", ":"))


def place_in_km(longitude: float, latitude: float, projection: LocalProjection) -> Place:
    """Return (x_km, y_km) of a place in WGS84 degrees; AreaError when it is not on the plane."""
    (place,) = _places([[longitude, latitude]], projection)
    return place


def _in_km(document: Mapping[str, Any], projection: LocalProjection) -> dict[str, Any]:
    if document.get("type") != "Feature":
        return _geometry_in_km(document, projection)
    properties = dict(_mapping(document.get("properties") or {}, "properties"))
    if "without" in properties:
        without = _mapping(properties["without"], "without")
        properties["without"] = _geometry_in_km(without, projection)
    geometry = _geometry_in_km(_mapping(document.get("geometry"), "geometry"), projection)
    return {**document, "geometry": geometry, "properties": properties}


def _geometry_in_km(geometry: Mapping[str, Any], projection: LocalProjection) -> dict[str, Any]:
    if geometry.get("type") == "GeometryCollection":
        parts = _list(geometry.get("geometries"), "geometries")
        found = [_part_in_km(_mapping(part, "geometry"), projection) for part in parts]
        return {**geometry, "geometries": found}
    return _part_in_km(geometry, projection)


def _part_in_km(geometry: Mapping[str, Any], projection: LocalProjection) -> dict[str, Any]:
    depth = _DEPTHS.get(str(geometry.get("type")))
    if depth is None or "coordinates" not in geometry:
        return dict(geometry)
    return {**geometry, "coordinates": _nested(geometry["coordinates"], depth, projection)}


def _nested(value: object, depth: int, projection: LocalProjection) -> list[Any]:
    if depth == 0:
        (point,) = _rounded(_places([value], projection))
        return point
    if depth == 1:
        return _rounded(_places(value, projection))
    return [_nested(one, depth - 1, projection) for one in _list(value, "coordinates")]


def _rounded(points: Points) -> list[list[float]]:
    """To a millimetre: an area has to fit a datagram."""
    return [[round(x_km, 6), round(y_km, 6)] for x_km, y_km in points]


def _document(text: str) -> Mapping[str, Any]:
    if len(text.encode(errors="replace")) > MOST_TEXT_BYTES:
        raise AreaError(
            f"the area is {len(text):,} characters long; at most {MOST_TEXT_BYTES:,} are taken"
        )
    if not text.lstrip().startswith("{"):
        return geometry_of_wkt(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise AreaError(f"the area is not JSON: {reason}") from None
    return _mapping(document, "area")


def _shape(
    geometry: Mapping[str, Any],
    properties: Mapping[str, Any],
    projection: LocalProjection | None,
    inside_collection: bool = False,
) -> Shape:
    kind = geometry.get("type")
    if kind == "GeometryCollection" and not inside_collection:
        parts = _list(geometry.get("geometries"), "geometries")
        return Union(
            tuple(
                _shape(_mapping(part, "geometry"), properties, projection, inside_collection=True)
                for part in parts
            )
        )
    if not isinstance(kind, str) or kind not in _READERS:
        known = ", ".join((*_READERS, "GeometryCollection"))
        raise AreaError(f"the geometry is {kind!r:.40}, not one of {known}")
    coordinates = geometry.get("coordinates")
    return _READERS[kind](coordinates, properties, lambda points: _places(points, projection))


Placing = Callable[[object], Points]
_DEPTHS = {"Point": 0, "LineString": 1, "Polygon": 2, "MultiPolygon": 3}
"""How deep the coordinates of a geometry lie."""


def _circle(coordinates: object, properties: Mapping[str, Any], place: Placing) -> Shape:
    (centre,) = place([coordinates])
    return Circle(*centre, _size(properties, "radius_km", "point"))


def _corridor(coordinates: object, properties: Mapping[str, Any], place: Placing) -> Shape:
    route = tuple(place(coordinates))
    return Corridor(route, _size(properties, "width_km", "line"))


def _polygon(coordinates: object, properties: Mapping[str, Any], place: Placing) -> Shape:
    polygon = Polygon.around(*(place(ring) for ring in _list(coordinates, "coordinates")))
    corners = set(polygon.corners)
    west, south, east, north = polygon.bounds
    upright = {(west, south), (east, south), (east, north), (west, north)}
    if len(polygon.rings) == 1 and corners == upright and len(polygon.corners) == 4:
        return Rectangle(Bounds(west, south, east, north))
    return polygon


def _multipolygon(coordinates: object, properties: Mapping[str, Any], place: Placing) -> Shape:
    parts = _list(coordinates, "coordinates")
    return Union(tuple(_polygon(part, properties, place) for part in parts))


_READERS: dict[str, Callable[[object, Mapping[str, Any], Placing], Shape]] = {
    "Point": _circle,
    "LineString": _corridor,
    "Polygon": _polygon,
    "MultiPolygon": _multipolygon,
}


def _places(points: object, projection: LocalProjection | None) -> Points:
    found: Points = []
    for point in _list(points, "coordinates"):
        pair = _list(point, "a point")
        if len(pair) not in (2, 3):  # GeoJSON allows a height, which a plane has not
            raise AreaError(f"a point has {len(pair)} numbers, not two")
        found.append((check_number(pair[0], "x of a point"), check_number(pair[1], "y of a point")))
    return found if projection is None or not found else _projected(found, projection)


def _projected(points: Points, projection: LocalProjection) -> Points:
    for (longitude, latitude), (before, _) in zip(points, (points[0], *points), strict=False):
        if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):
            raise AreaError(f"({longitude:g}, {latitude:g}) is not a longitude and a latitude")
        if abs(latitude) > LARGEST_LATITUDE:
            raise AreaError(f"latitude {latitude:g} is too near to a pole ({LARGEST_LATITUDE:g})")
        if abs(longitude - before) > 180:
            raise AreaError(
                f"the area crosses the date line between longitudes {before:g} and {longitude:g}; "
                "give its two parts, one on each side"
            )
    longitudes, latitudes = np.array(points).T
    reach = projection.reach_km(latitudes, longitudes)
    if reach.max() > LARGEST_REACH_KM:
        far = int(np.argmax(reach))
        raise AreaError(
            f"({longitudes[far]:g}, {latitudes[far]:g}) is {reach[far]:,.0f} km from the site's "
            f"centre; at most {LARGEST_REACH_KM:g} are taken"
        )
    x_km, y_km = projection.to_plane(latitudes, longitudes)
    return list(zip(x_km.tolist(), y_km.tolist(), strict=True))


def _heading(properties: Mapping[str, Any]) -> Heading | None:
    along = properties.get("along", False)
    if not isinstance(along, bool):
        raise AreaError(f"along is {along!r:.40}, not true or false")
    direction = properties.get("heading_deg")
    if along and direction is not None:
        raise AreaError("an area has heading_deg or along, not both")
    tolerance = check_number(properties.get("heading_tolerance_deg", 45.0), "heading_tolerance_deg")
    if along:
        return Heading(None, tolerance)
    return None if direction is None else Heading(check_number(direction, "heading_deg"), tolerance)


def _velocity(properties: Mapping[str, Any]) -> Velocity | None:
    if "velocity_kmps" not in properties:
        return None
    pair = _list(properties["velocity_kmps"], "velocity_kmps")
    if len(pair) != 2:
        raise AreaError(f"velocity_kmps has {len(pair)} numbers, not two: east and north")
    east, north = (check_number(one, "velocity_kmps") for one in pair)
    return Velocity(east, north)


def _size(properties: Mapping[str, Any], name: str, kind: str) -> float:
    if name not in properties:
        raise AreaError(f"a {kind} is no area: it needs the property {name}")
    return check_number(properties[name], name)


def _time(properties: Mapping[str, Any], name: str, default: float) -> float:
    return default if name not in properties else check_number(properties[name], name)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise AreaError(f"{what} is {value!r:.40}, not an object")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise AreaError(f"{what} is {value!r:.40}, not a list")
    if not value:
        raise AreaError(f"{what} is empty")
    return value

"""Corridors as the text that messages and subscriptions carry: a route, or the road upstream."""

from __future__ import annotations

import json

from nearcast.errors import AreaError
from nearcast.geo.corridor import Corridor
from nearcast.geo.shapes import Union

__all__ = ["write_corridors"]

_DECIMALS = 4
"""Of km: a tenth of a metre. A message has room for about 50 points."""


def write_corridors(shape: Corridor | Union, *, along: bool = True) -> str:
    """Return GeoJSON of a corridor, or of several such as `RoadGraph.upstream` finds.

    Parameters
    ----------
    along
        Whether only who drives in their direction is meant.

    Raises
    ------
    AreaError
        When it is made of other shapes, or of corridors of different widths.
    """
    parts = shape.parts if isinstance(shape, Union) else (shape,)
    corridors = [one for one in parts if isinstance(one, Corridor)]
    widths_km = {one.width_km for one in corridors}
    if len(corridors) < len(parts) or len(widths_km) != 1:
        raise AreaError("only corridors of one width can be written as lines")
    lines = [
        {
            "type": "LineString",
            "coordinates": [[round(x, _DECIMALS), round(y, _DECIMALS)] for x, y in one.route],
        }
        for one in corridors
    ]
    geometry = lines[0] if len(lines) == 1 else {"type": "GeometryCollection", "geometries": lines}
    properties = {"width_km": widths_km.pop(), **({"along": True} if along else {})}
    feature = {"type": "Feature", "geometry": geometry, "properties": properties}
    return json.dumps(feature, separators=(",", ":"))

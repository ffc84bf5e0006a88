"""Well-known text: from ``POLYGON ((0 0, 1 0, 0 1, 0 0))`` to the tree that GeoJSON has."""

from __future__ import annotations

import re
from typing import Any

from nearcast.errors import AreaError

__all__ = ["geometry_of_wkt"]

_TOKEN = re.compile(r"\s*(?:([A-Za-z]+)|([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|([(),]))")
_KINDS = {
    "POINT": ("Point", 0),
    "LINESTRING": ("LineString", 1),
    "POLYGON": ("Polygon", 2),
    "MULTIPOLYGON": ("MultiPolygon", 3),
}
"""The name in GeoJSON, and how deep its points are."""


def geometry_of_wkt(text: str) -> dict[str, Any]:
    """Return a geometry as GeoJSON has it; AreaError with the position of what is wrong."""
    reader = _Reader(text)
    geometry = reader.geometry(depth=0)
    reader.expect_end()
    return geometry


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._begin = 0
        self._kind, self._token = "", ""
        self._next()

    def geometry(self, depth: int) -> dict[str, Any]:
        name = self._word().upper()
        if name == "GEOMETRYCOLLECTION" and depth == 0:
            parts = self._list(lambda: self.geometry(depth + 1))
            return {"type": "GeometryCollection", "geometries": parts}
        if name not in _KINDS:
            raise self._wrong(f"{name} is not one of {', '.join(_KINDS)}, GEOMETRYCOLLECTION")
        kind, levels = _KINDS[name]
        if self._token.upper() == "EMPTY":
            raise self._wrong(f"the {name} is empty")
        points = self._points(max(levels, 1))
        return {"type": kind, "coordinates": points[0] if levels == 0 else points}

    def expect_end(self) -> None:
        if self._kind != "end":
            raise self._wrong(f"{self._token!r} after the end of the shape")

    def _points(self, levels: int) -> list[Any]:
        if levels == 1:
            return self._list(self._point)
        return self._list(lambda: self._points(levels - 1))

    def _list(self, item: Any) -> list[Any]:
        self._take("(")
        found = [item()]
        while self._token == ",":
            self._next()
            found.append(item())
        self._take(")")
        return found

    def _point(self) -> list[float]:
        found = [self._number(), self._number()]
        if self._kind == "number":
            raise self._wrong("a point has two numbers, x and y")
        return found

    def _number(self) -> float:
        if self._kind != "number":
            raise self._wrong(f"a number is wanted, not {self._token or 'the end'!r}")
        value = float(self._token)
        self._next()
        return value

    def _word(self) -> str:
        if self._kind != "word":
            raise self._wrong(f"the name of a shape is wanted, not {self._token or 'the end'!r}")
        word = self._token
        self._next()
        return word

    def _take(self, sign: str) -> None:
        if self._token != sign:
            raise self._wrong(f"{sign!r} is wanted, not {self._token or 'the end'!r}")
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is not None:
            group = match.lastindex or 1
            self._at, self._begin = match.end(), match.start(group)
            self._kind, self._token = ("word", "number", "sign")[group - 1], match[group]
            return
        rest = self._text[self._at :].lstrip()
        self._begin = len(self._text) - len(rest)
        if rest:
            raise self._wrong(f"{rest[0]!r} is not part of a shape")
        self._kind, self._token = "end", ""

    def _wrong(self, message: str) -> AreaError:
        return AreaError(f"well-known text, character {self._begin + 1}: {message}")

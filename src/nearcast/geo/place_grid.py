"""Where clients are that move one by one: a grid in which a move costs the same for any number.

`PointIndex` is quicker to ask but laid anew for all at once; a broker hears of moves and messages
by turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from math import hypot

__all__ = ["Place", "PlaceGrid"]

Place = tuple[float, float]
"""East and north in km."""
_CELL_KM = 0.5
_Cell = tuple[int, int]


class PlaceGrid(Mapping[str, Place]):
    """Places by client, as a mapping; and the clients near a place or in bounds."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._cells: dict[_Cell, dict[str, Place]] = {}

    def __getitem__(self, client: str) -> Place:
        return self._places[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, client: object) -> bool:
        return client in self._places

    def move(self, client: str, x_km: float, y_km: float) -> None:
        """Note where a client is; at what is not finite, it is near nothing."""
        cell, before = _cell(x_km, y_km), self._places.get(client)
        if before is not None and (old := _cell(*before)) != cell:
            self._leave(old, client)
        self._places[client] = place = (x_km, y_km)
        if cell is not None:
            self._cells.setdefault(cell, {})[client] = place

    def forget(self, client: str) -> None:
        """Forget a client, if it is known."""
        place = self._places.pop(client, None)
        if place is not None:
            self._leave(_cell(*place), client)

    def inside(self, west: float, south: float, east: float, north: float) -> list[str]:
        """Return the clients in an upright rectangle, its border included."""
        return [
            client
            for cell in self._meeting(west, south, east, north)
            for client, (x_km, y_km) in cell.items()
            if west <= x_km <= east and south <= y_km <= north
        ]

    def within(self, x_km: float, y_km: float, radius_km: float) -> list[tuple[float, str]]:
        """Return the clients in a circle, its edge included, with their distances."""
        corners = x_km - radius_km, y_km - radius_km, x_km + radius_km, y_km + radius_km
        return [
            (away_km, client)
            for cell in self._meeting(*corners)
            for client, place in cell.items()
            if (away_km := hypot(place[0] - x_km, place[1] - y_km)) <= radius_km
        ]

    def _meeting(
        self, west: float, south: float, east: float, north: float
    ) -> Iterable[Mapping[str, Place]]:
        """Return the cells that a rectangle meets; all cells where that is less to look at."""
        first, last = _cell(west, south), _cell(east, north)
        if first is None or last is None:
            return self._cells.values()
        columns, rows = range(first[0], last[0] + 1), range(first[1], last[1] + 1)
        if (last[0] - first[0] + 1) * (last[1] - first[1] + 1) > len(self._cells):
            return self._cells.values()
        cells = self._cells
        return [cells[at] for column in columns for row in rows if (at := (column, row)) in cells]

    def _leave(self, cell: _Cell | None, client: str) -> None:
        if cell is None:
            return
        clients = self._cells[cell]
        del clients[client]
        if not clients:
            del self._cells[cell]


def _cell(x_km: float, y_km: float) -> _Cell | None:
    if not math.isfinite(x_km + y_km):
        return None
    return math.floor(x_km / _CELL_KM), math.floor(y_km / _CELL_KM)

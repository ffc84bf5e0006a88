"""Where messages have to happen for clients to hear of them: areas that stand still, follow, move.

Areas that stand still are in an `AreaIndex`. Those that follow their clients are found from where
the clients are: none farther than the largest of them reaches. Those that move by themselves are
few, and all looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.geo.place_grid import PlaceGrid
from nearcast.wire.areas import area_of
from nearcast.wire.terms import Place, Terms

if TYPE_CHECKING:  # who has no areas needs no numpy
    from nearcast.geo.area import AreaOfInterest
    from nearcast.geo.area_index import AreaIndex
    from nearcast.geo.bounds import Bounds

__all__ = ["SLACK_KM", "Reaches"]

SLACK_KM = 0.1
"""How far a client may be from where it was when a broker was last told."""


class Reaches:
    """The areas of clients that want to hear of areas only.

    Parameters
    ----------
    places
        Where clients are; one that never told is at (0, 0).
    """

    def __init__(self, places: PlaceGrid) -> None:
        self._places = places
        self._count: dict[str, int] = {}
        """Areas of each client."""
        self._standing: AreaIndex[tuple[str, int]] | None = None
        self._following: dict[str, list[Bounds]] = {}
        self._moving: dict[str, list[tuple[AreaOfInterest, bool]]] = {}
        """With whether they follow the client besides."""
        self._farthest_km = 0.0
        """How far from its client an area may be that follows; may be more than needed."""

    def __len__(self) -> int:
        return len(self._count)

    def __contains__(self, client: object) -> bool:
        return client in self._count

    def put(self, client: str, terms: tuple[Terms, ...]) -> None:
        """Take the areas of a client that has none here."""
        from nearcast.geo.area_index import AreaIndex
        from nearcast.geo.shapes import Rectangle

        self._count[client] = len(terms)
        for number, one in enumerate(terms):
            area = area_of(one.area)
            bounds = area.shape.bounds.grown(SLACK_KM)
            if area.velocity is not None:
                self._moving.setdefault(client, []).append((area, one.follows))
            elif one.follows:
                self._following.setdefault(client, []).append(bounds)
                self._farthest_km = max(self._farthest_km, *map(abs, bounds))
            else:
                if self._standing is None:
                    self._standing = AreaIndex()
                self._standing.put((client, number), Rectangle(bounds))

    def remove(self, client: str) -> None:
        """Forget a client, if it is here."""
        for number in range(self._count.pop(client, 0)):
            if self._standing is not None and (client, number) in self._standing:
                self._standing.remove((client, number))
        self._moving.pop(client, None)
        if self._following.pop(client, None) is not None and not self._following:
            self._farthest_km = 0.0

    def at(self, place: Place, now_s: float) -> dict[str, None]:
        """Return the clients with an area that a place is in or near."""
        x_km, y_km = place
        found: dict[str, None] = {}
        if self._standing is not None:
            found = dict.fromkeys(client for client, _ in self._standing.at(x_km, y_km))
        if self._following:
            for client in self._followers_near(x_km, y_km):
                east, north = self._places.get(client, (0.0, 0.0))
                areas = self._following.get(client, ())
                if any(_contains(one, x_km - east, y_km - north) for one in areas):
                    found[client] = None
        for client, moving in self._moving.items():
            own = self._places.get(client, (0.0, 0.0))
            for area, follows in moving:
                east, north = own if follows else (0.0, 0.0)
                bounds = area.shape_at(now_s).bounds.grown(SLACK_KM)
                if _contains(bounds, x_km - east, y_km - north):
                    found[client] = None
        return found

    def _followers_near(self, x_km: float, y_km: float) -> list[str]:
        far = self._farthest_km
        near = self._places.inside(x_km - far, y_km - far, x_km + far, y_km + far)
        if abs(x_km) <= far and abs(y_km) <= far:
            near += [one for one in self._following if one not in self._places]
        return near


def _contains(bounds: Bounds, x_km: float, y_km: float) -> bool:
    west, south, east, north = bounds
    return west <= x_km <= east and south <= y_km <= north

"""Subscribers of one topic or pattern that do not want all of its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from nearcast.content.expression import Or
from nearcast.content.filter_index import FilterIndex
from nearcast.wire.areas import area_of
from nearcast.wire.envelope import Envelope
from nearcast.wire.terms import Place, Terms, expression_of

if TYPE_CHECKING:
    from nearcast.geo.area import AreaOfInterest
    from nearcast.geo.bounds import Bounds

__all__ = ["SLACK_KM", "SelectiveSubscribers", "is_near"]

SLACK_KM = 0.1
"""How far a client may be from where it was when a broker was last told."""


class SelectiveSubscribers:
    """Clients by their terms; a client may have several, of which one has to hold.

    Parameters
    ----------
    places
        Where clients are, as far as they told.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._terms: dict[str, tuple[Terms, ...]] = {}
        self._filters: FilterIndex[str] = FilterIndex()
        self._unfiltered: dict[str, None] = {}
        """Clients that some terms of let all attributes through."""
        self._reaches: dict[str, list[_Reach]] = {}
        """Of clients that want to hear of areas only; read once, however many there are."""

    def __len__(self) -> int:
        return len(self._terms)

    def __contains__(self, client: str) -> bool:
        return client in self._terms

    @property
    def has_areas(self) -> bool:
        """Whether somebody wants to hear of an area only."""
        return bool(self._reaches)

    def put(self, client: str, terms: tuple[Terms, ...]) -> bool:
        """Note what a client wants; tell whether that is new."""
        if self._terms.get(client) == terms:
            return False
        self.remove(client)
        if all(one.where for one in terms):
            filters = tuple(expression_of(one.where) for one in terms)
            self._filters.put(client, filters[0] if len(filters) == 1 else Or(filters))
        else:
            self._unfiltered[client] = None
        if all(one.area for one in terms):
            self._reaches[client] = [_reach_of(one) for one in terms]
        self._terms[client] = terms
        return True

    def remove(self, client: str) -> bool:
        """Forget a client; tell whether it was here."""
        if self._terms.pop(client, None) is None:
            return False
        if client in self._unfiltered:
            del self._unfiltered[client]
        else:
            self._filters.remove(client)
        self._reaches.pop(client, None)
        return True

    def matching(self, envelope: Envelope, place: Place, now_s: float) -> list[str]:
        """Return the clients that want a message, and maybe some for which it is a little too far.

        Parameters
        ----------
        place
            Where it happened.
        """
        found = [*self._filters.matching(envelope.attributes), *self._unfiltered]
        reaches = self._reaches
        if not reaches:
            return found
        return [
            one
            for one in found
            if one not in reaches or self._concerns(one, reaches[one], place, now_s)
        ]

    def _concerns(self, client: str, reaches: Iterable[_Reach], place: Place, now_s: float) -> bool:
        for bounds, moving, follows in reaches:
            east, north = self._places.get(client, (0.0, 0.0)) if follows else (0.0, 0.0)
            now = bounds if moving is None else moving.shape_at(now_s).bounds
            if is_near(now, (place[0] - east, place[1] - north)):
                return True
        return False


class _Reach(NamedTuple):
    """Where a message has to happen, about."""

    bounds: Bounds
    moving: AreaOfInterest | None
    """Where the bounds are at a time, if they move by themselves."""
    follows: bool
    """Whether they move with the client."""


def _reach_of(terms: Terms) -> _Reach:
    area = area_of(terms.area)
    return _Reach(area.shape.bounds, None if area.velocity is None else area, terms.follows)


def is_near(bounds: Bounds, place: Place) -> bool:
    """Tell whether a place is in an area or near, as the rectangle around the area says."""
    west, south, east, north = bounds
    return (
        west - SLACK_KM <= place[0] <= east + SLACK_KM
        and south - SLACK_KM <= place[1] <= north + SLACK_KM
    )

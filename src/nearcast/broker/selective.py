"""Subscribers of one topic or pattern that do not want all of its messages."""

from __future__ import annotations

from nearcast.broker.reaches import Reaches
from nearcast.content.expression import Or
from nearcast.content.filter_index import FilterIndex
from nearcast.geo.place_grid import PlaceGrid
from nearcast.wire.envelope import Envelope
from nearcast.wire.terms import Place, Terms, expression_of

__all__ = ["SelectiveSubscribers"]


class SelectiveSubscribers:
    """Clients by their terms; a client may have several, of which one has to hold.

    Parameters
    ----------
    places
        Where clients are, as far as they told.
    """

    def __init__(self, places: PlaceGrid) -> None:
        self._places = places
        self._terms: dict[str, tuple[Terms, ...]] = {}
        self._filters: FilterIndex[str] = FilterIndex()
        self._unfiltered: dict[str, None] = {}
        """Clients that some terms of let all attributes through."""
        self._everywhere: dict[str, None] = {}
        """Those of them that do not ask where a message happens."""
        self._reaches = Reaches(places)
        """Of clients that want to hear of areas only."""

    def __len__(self) -> int:
        return len(self._terms)

    def __contains__(self, client: str) -> bool:
        return client in self._terms

    @property
    def has_areas(self) -> bool:
        """Whether somebody wants to hear of an area only."""
        return len(self._reaches) > 0

    def put(self, client: str, terms: tuple[Terms, ...]) -> bool:
        """Note what a client wants; tell whether that is new."""
        if self._terms.get(client) == terms:
            return False
        self.remove(client)
        has_area = all(one.area for one in terms)
        if has_area:
            self._reaches.put(client, terms)
        if all(one.where for one in terms):
            filters = tuple(expression_of(one.where) for one in terms)
            self._filters.put(client, filters[0] if len(filters) == 1 else Or(filters))
        else:
            self._unfiltered[client] = None
            if not has_area:
                self._everywhere[client] = None
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
        self._everywhere.pop(client, None)
        self._reaches.remove(client)
        return True

    def wants(self, client: str, envelope: Envelope, place: Place, now_s: float) -> bool:
        """Tell whether a client wants a message; one without terms here wants all of them."""
        terms, own = self._terms.get(client), self._places.get(client, (0.0, 0.0))
        return terms is None or any(
            one.hold(envelope.attributes, place, own, now_s) for one in terms
        )

    def matching(self, envelope: Envelope, place: Place, now_s: float) -> list[str]:
        """Return the clients that want a message, and maybe some for which it is a little too far.

        Parameters
        ----------
        place
            Where it happened.
        """
        matched = self._filters.matching(envelope.attributes)
        reaches = self._reaches
        if not len(reaches):
            return [*matched, *self._everywhere]
        attracted = set(matched)
        return [
            *(one for one in matched if one not in reaches),
            *self._everywhere,
            *(
                one
                for one in reaches.at(place, now_s)
                if one in self._unfiltered or one in attracted
            ),
        ]

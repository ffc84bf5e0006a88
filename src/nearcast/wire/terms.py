"""The terms of a subscription: which messages of a topic its client wants to hear.

The broker leaves out whom a message does not concern, as far as it knows; a client's home, which
knows best, looks again at each notification.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from nearcast.content.attributes import Attributes
from nearcast.content.expression import Expression
from nearcast.content.filter_text import read_filter
from nearcast.errors import FilterError, WireError
from nearcast.wire.areas import FURTHEST_KM, area_of, check_area
from nearcast.wire.messages import Subscribe

__all__ = ["NO_TERMS", "Place", "Terms", "check_terms", "expression_of", "wish_terms"]

Place = tuple[float, float]
"""East and north in km."""


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """What a message has to be for a subscription to hear it."""

    where: str = ""
    """A filter for its attributes; empty: any."""
    area: str = ""
    """The area in which it happened; empty: anywhere."""
    follows: bool = False
    """Whether the area moves with the client, whose place is then its origin."""

    def hold(self, attributes: Attributes, place: Place | None, own: Place, now_s: float) -> bool:
        """Tell whether a message is wanted.

        Parameters
        ----------
        place
            Where it happened; None: nobody knows, and it is in no area.
        own
            Where the client is.
        """
        if self.where and not expression_of(self.where).matches(attributes):
            return False
        if not self.area:
            return True
        if place is None or not max(map(abs, place)) <= FURTHEST_KM:
            return False
        east, north = own if self.follows else (0.0, 0.0)
        return area_of(self.area).selects(place[0] - east, place[1] - north, None, now_s)


def wish_terms(wish: Subscribe) -> Terms:
    """Return the terms that a client asks for."""
    return Terms(wish.where, wish.area, wish.follows)


NO_TERMS = Terms()
"""All messages of the topic."""


@lru_cache(4_096)
def expression_of(where: str) -> Expression:
    """Return a filter as a tree; FilterError names the mistake."""
    return read_filter(where)


def check_terms(terms: Terms) -> None:
    """Raise WireError with the mistake in a filter or an area."""
    if terms.where:
        try:
            expression_of(terms.where)
        except FilterError as error:
            raise WireError(f"filter, {error}") from None
    if terms.area:
        check_area(terms.area)
        area = area_of(terms.area)
        if area.heading is not None:
            raise WireError("area, what happens somewhere has no heading")
        if area.nearest is not None:
            raise WireError("area, `nearest` says who gets a message, not which ones to hear")
    elif terms.follows:
        raise WireError("area, there is none that could follow the client")

"""How an overloaded component finds a node for a replica: the topic of underloaded nodes."""

from __future__ import annotations

from nearcast.routing.chance import Chance
from nearcast.routing.keys import (
    INDEX_END,
    SUBSCRIBER,
    Key,
    NetPath,
    fresh_unique_id,
    subscriber_key,
    target_of,
)
from nearcast.routing.route_actions import AddKey, RemoveKey, Route, RouteAction, SendPeer
from nearcast.routing.route_messages import Offered, Refused, Search
from nearcast.routing.router import RoutingSettings

__all__ = ["UNDERLOADED", "Underloaded", "is_room", "room_key", "room_target", "search_route"]

UNDERLOADED = "underloaded"
"""The paper's topic; no component or device may use it."""


def room_key(net: NetPath, rng: Chance) -> Key:
    """Return a key that says that there is room, at a random index so that searches spread."""
    return subscriber_key(UNDERLOADED, net, rng.randrange(0, INDEX_END), fresh_unique_id(rng))


def room_target(net: NetPath, rng: Chance | None) -> Key:
    """Return where room of a net is looked for: near any index; None: at the last.

    A search that found no key of its net goes on there: before the first key comes the last one.
    """
    return target_of(
        UNDERLOADED, net, INDEX_END - 1 if rng is None else rng.randrange(0, INDEX_END)
    )


def is_room(key: Key, net: NetPath) -> bool:
    """Tell whether a key says that there is room in a net."""
    return key[:3] == (UNDERLOADED, net, SUBSCRIBER)


def search_route(search: Search, rng: Chance) -> Route:
    """Return the way of a search: to any index, in the net that produces the load."""
    return Route(room_target(search.net, rng), search)


class Underloaded:
    """A node's readiness to run a replica: offered, kept for one searcher, or neither."""

    def __init__(self, net: NetPath, settings: RoutingSettings, rng: Chance) -> None:
        self._net, self._settings, self._rng = net, settings, rng
        self._key: Key | None = None
        self._kept: tuple[str, int] | None = None
        """Searcher and delegation."""
        self._until_s = 0.0

    def offer(self) -> list[RouteAction]:
        """Say that there is room."""
        if self._key is not None or self._kept is not None:
            return []
        self._key = room_key(self._net, self._rng)
        return [AddKey(self._key)]

    def _withdraw(self) -> list[RouteAction]:
        """Say that there is no room any more."""
        key, self._key = self._key, None
        return [RemoveKey(key)] if key is not None else []

    def is_key(self, key: Key) -> bool:
        """Return whether a key stands for the offer."""
        return key == self._key

    def on_key_failed(self, key: Key) -> list[RouteAction]:
        """Offer again."""
        if key != self._key:
            return []
        self._key = None
        return self.offer()

    def on_search(self, key: Key | None, search: Search, now: float) -> list[RouteAction]:
        """Answer a search that ended here; None: it came directly.

        The first searcher is served and all others are refused.
        """
        if key is not None and not is_room(key, search.net):
            if search.is_wrapped:
                return [SendPeer(search.searcher, Refused(search.delegation))]
            again = Search(search.searcher, search.delegation, search.net, is_wrapped=True)
            return [Route(room_target(search.net, None), again)]
        asked = (search.searcher, search.delegation)
        if self._kept == asked:
            return [SendPeer(search.searcher, Offered(search.delegation))]
        if self._key is None or search.net != self._net:
            return [SendPeer(search.searcher, Refused(search.delegation))]
        self._kept, self._until_s = asked, now + 2 * self._settings.reply_s
        return [*self._withdraw(), SendPeer(search.searcher, Offered(search.delegation))]

    def take(self, searcher: str, delegation: int) -> bool:
        """Return whether the node was kept for this searcher, and use it up."""
        if self._kept != (searcher, delegation):
            return False
        self._kept = None
        return True

    def on_timer(self, now: float) -> list[RouteAction]:
        """Offer again what a searcher did not use."""
        if self._kept is None or now < self._until_s:
            return []
        self._kept = None
        return self.offer()

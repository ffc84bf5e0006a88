"""Which server a publisher is at, as far as this one can tell: nobody else speaks for it.

The orders name the home of each client that publishes here. While that home brings messages of the
client, or the client itself is heard here, another server that speaks for it is not believed: it
may have the client's credential, but the client is not there. After a while of silence it may be.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from nearcast.server.site_orders import Orders

__all__ = ["HomeWitness"]

_LIMIT = 100_000


class _Sessions(Protocol):
    def heard_at(self, client: str) -> float:
        """Return when a client was last heard here."""
        ...


class HomeWitness:
    """Homes by the orders, and when they last brought something of their clients.

    Parameters
    ----------
    sessions
        Those of clients here; None when this server has none.
    quiet_s
        How long nothing is heard of a client before it may be elsewhere.
    """

    def __init__(self, server: str, sessions: _Sessions | None, quiet_s: float) -> None:
        self._server, self._sessions, self._quiet_s = server, sessions, quiet_s
        self._homes: dict[str, str] = {}
        self._brought: OrderedDict[str, float] = OrderedDict()
        """When the ordered home of a client last brought something of it."""

    def obey(self, orders: Orders) -> None:
        """Take the homes that new orders name."""
        self._homes = {one.client: one.home for one in orders.clients if one.home != self._server}
        self._brought.clear()

    def may_speak(self, server: str, client: str, now: float) -> bool:
        """Tell whether a client may be at a server."""
        if self._homes.get(client) == server:
            return True
        heard_at = self._brought.get(client, float("-inf"))
        if self._sessions is not None:
            heard_at = max(heard_at, self._sessions.heard_at(client))
        return now - heard_at >= self._quiet_s

    def note(self, server: str, client: str, now: float) -> None:
        """Note that a server brought something of a client."""
        if self._homes.get(client) == server:
            self._brought[client] = now
            self._brought.move_to_end(client)
            if len(self._brought) > _LIMIT:
                self._brought.popitem(last=False)

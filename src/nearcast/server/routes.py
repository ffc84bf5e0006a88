"""Tells publishers which server processes their topic, so that they publish straight to it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from nearcast.server.site_orders import Orders
from nearcast.wire.messages import Route

__all__ = ["Routes"]

_TELL_AGAIN_S = 10.0
_TOLD_LIMIT = 16_384


class _Clients(Protocol):
    def tell(self, client: str, message: Route) -> None:
        """Say something to a client, once."""
        ...


class Routes:
    """A client is told when its message had to be forwarded, and again while that goes on."""

    def __init__(self, clients: _Clients) -> None:
        self._clients = clients
        self._edges: dict[str, tuple[str, int, bytes, bytes]] = {}
        self._told_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        """By client and topic; the oldest are forgotten first, and told once more."""

    def obey(self, orders: Orders) -> None:
        """Take the edge servers of new orders; all are told anew."""
        self._edges = {
            one.server: (one.host, one.port, one.public_key, one.credential)
            for one in orders.servers
            if one.host
        }
        self._told_at.clear()

    def forwarded(self, client: str, topic: str, target: str, now: float) -> None:
        """Tell a client where its topic is processed, if that is a server for clients."""
        edge, stream = self._edges.get(target), (client, topic)
        if edge is None or now - self._told_at.get(stream, float("-inf")) < _TELL_AGAIN_S:
            return
        self._told_at[stream] = now
        self._told_at.move_to_end(stream)
        if len(self._told_at) > _TOLD_LIMIT:
            self._told_at.popitem(last=False)
        self._clients.tell(client, Route(topic, *edge))

    def withdraw(self, client: str, topic: str) -> None:
        """Tell a client that visits this server to publish a topic through its home."""
        self._clients.tell(client, Route(topic))

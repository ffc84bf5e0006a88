"""Subscription updates: what a home tells other servers about its subscribers.

All servers know who subscribes to what: each may have to process a topic's next message, after
new orders or because a publisher comes that no plan knew. Only brokers hear of each move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.server.home_clients import HomeClients
from nearcast.server.mesh_messages import Moved, Subscribers, Unsubscribed
from nearcast.trust.topic_pattern import is_pattern

__all__ = ["SubscriptionUpdates", "Update"]

Update = tuple[str, Subscribers | Unsubscribed | Moved]
"""A server and what to tell it."""


class SubscriptionUpdates:
    """Makes the updates of a home.

    Parameters
    ----------
    servers
        Returns all servers of the site, this one among them.
    brokers_of
        Returns those that manage a topic.
    """

    def __init__(
        self,
        clients: HomeClients,
        servers: Callable[[], Iterable[str]],
        brokers_of: Callable[[str], Iterable[str]],
    ) -> None:
        self._clients, self._servers, self._brokers_of = clients, servers, brokers_of

    def subscribed(self, client: str, topic: str, request: int = 0) -> list[Update]:
        """Return what follows from a subscription; above 0, `request` is to be answered."""
        place = self._clients.place(client)
        message = Subscribers(topic, ((client, *place),), complete=False, request=request)
        return [(server, message) for server in self._servers()]

    def unsubscribed(self, client: str, topics: Iterable[str]) -> list[Update]:
        """Return what follows from the end of subscriptions."""
        return [
            (server, Unsubscribed(topic, (client,)))
            for topic in topics
            for server in self._servers()
        ]

    def moved(self, client: str) -> list[Update]:
        """Return what follows from a move."""
        message = Moved(((client, *self._clients.place(client)),))
        servers = {
            server: None
            for topic in self._clients.topics(client)
            for server in (self._servers() if is_pattern(topic) else self._brokers_of(topic))
        }
        return [(server, message) for server in servers]

    def complete(self, server: str, topic: str) -> Update:
        """Return all subscribers of a topic and where they are now, for one server."""
        clients = tuple(
            (client, *self._clients.place(client)) for client in self._clients.subscribers(topic)
        )
        return server, Subscribers(topic, clients, complete=True)

    def introduce(self, server: str) -> list[Update]:
        """Return all that a server has to know that knows nothing or missed something."""
        return [self.complete(server, topic) for topic in self._clients.all_topics()]

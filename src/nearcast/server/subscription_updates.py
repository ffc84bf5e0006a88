"""Subscription updates: what a home tells the brokers concerned about its subscribers."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.server.home_clients import HomeClients
from nearcast.server.interests import Interests
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    Unsubscribed,
)

__all__ = ["SubscriptionUpdates", "Update"]

Update = tuple[str, Subscribers | Unsubscribed | Moved]
"""A server and what to tell it."""


class SubscriptionUpdates:
    """Makes the updates of a home, which hears of its own subscribers too."""

    def __init__(self, server: str, clients: HomeClients, interests: Interests) -> None:
        self._server, self._clients, self._interests = server, clients, interests

    def subscribed(self, client: str, topic: str, request: int = 0) -> list[Update]:
        """Return what follows from a subscription; above 0, `request` is to be answered."""
        place = self._clients.place(client)
        terms = self._clients.terms_of((client,), topic)
        message = Subscribers(topic, ((client, *place),), False, request, terms)
        return [(server, message) for server in self._concerned(topic)]

    def unsubscribed(self, client: str, topics: Iterable[str]) -> list[Update]:
        """Return what follows from the end of subscriptions."""
        return [
            (server, Unsubscribed(topic, (client,)))
            for topic in topics
            for server in self._concerned(topic)
        ]

    def moved(self, client: str) -> list[Update]:
        """Return what follows from a move."""
        message = Moved(((client, *self._clients.place(client)),))
        topics = self._clients.topics(client)
        servers = dict.fromkeys(one for topic in topics for one in self._concerned(topic))
        return [(server, message) for server in servers]

    def complete(self, server: str, topic: str, request: int = 0) -> Update:
        """Return all subscribers of a topic and where they are now, for one server."""
        subscribers = self._clients.subscribers(topic)
        clients = tuple((client, *self._clients.place(client)) for client in subscribers)
        terms = self._clients.terms_of(subscribers, topic)
        return server, Subscribers(topic, clients, True, request, terms)

    def _concerned(self, topic: str) -> Iterable[str]:
        return (self._server, *self._interests.holders(topic))

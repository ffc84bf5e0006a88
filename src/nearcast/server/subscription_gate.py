"""Decides which subscriptions of a client this server takes."""

from __future__ import annotations

from nearcast.errors import ConfigError, WireError
from nearcast.server.authorise import Authoriser
from nearcast.server.home_clients import HomeClients
from nearcast.trust.topic_pattern import check_pattern, is_pattern
from nearcast.wire.messages import Subscribe
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.terms import check_terms, wish_terms

__all__ = ["SubscriptionGate"]


class SubscriptionGate:
    """Rights, limits and form of subscriptions.

    Parameters
    ----------
    limit
        Most subscriptions of a client.
    pattern_limit
        Most of them with wildcards.
    """

    def __init__(
        self,
        sessions: ServerSessions,
        clients: HomeClients,
        authoriser: Authoriser,
        limit: int,
        pattern_limit: int,
    ) -> None:
        self._sessions, self._clients, self._authoriser = sessions, clients, authoriser
        self._limit, self._pattern_limit = limit, pattern_limit

    def refusal(self, client: str, wish: Subscribe) -> str | None:
        """Return why a client may not have a subscription; None: it may."""
        if self._sessions.is_visitor(client):
            return "subscribe at your home"
        reason = self._authoriser.authorise(client, "subscribe", wish.topic)
        if reason is not None:
            return reason
        topics = self._clients.topics(client)
        if wish.topic not in topics:
            if len(topics) >= self._limit:
                return f"more than {self._limit} subscriptions"
            if is_pattern(wish.topic) and sum(map(is_pattern, topics)) >= self._pattern_limit:
                return f"more than {self._pattern_limit} patterns"
        try:
            if is_pattern(wish.topic):
                check_pattern(wish.topic)
            check_terms(wish_terms(wish))
        except (ConfigError, WireError) as error:
            return str(error)
        return None

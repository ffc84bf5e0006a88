"""What other homes say of their subscribers, as far as those clients' rights go.

Only those of topics that are here are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs

from nearcast.server.authorise import Authoriser
from nearcast.server.peers import Peers
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    SubscribersKnown,
    Unsubscribed,
)
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.vouching import Vouching

__all__ = ["RemoteSubscribers"]


class RemoteSubscribers:
    """Puts the subscribers of other servers into the directory, and takes them out.

    Parameters
    ----------
    concerns
        Tells whether a subscription concerns any topic here.
    ends
        Returns the highest offsets of these topics.
    on_known
        Is told that more subscribers are known.
    """

    def __init__(
        self,
        peers: Peers,
        directory: SubscriberDirectory,
        authoriser: Authoriser,
        vouching: Vouching,
        concerns: Callable[[str], bool],
        ends: Callable[[str], Mapping[str, int]],
        on_known: Callable[[], None],
    ) -> None:
        self._peers, self._directory, self._authoriser = peers, directory, authoriser
        self._vouching, self._on_known = vouching, on_known
        self._concerns, self._ends = concerns, ends
        peers.on(Subscribers, self._on_subscribers)
        peers.on(Unsubscribed, lambda home, message, _: directory.on_unsubscribed(home, message))
        peers.on(Moved, lambda home, message, _: directory.on_moved(home, message))

    def may_resume(self, home: str, topic: str, client: str, now: float) -> bool:
        """Tell whether a home may ask for a topic's notifications: a resume is a subscription."""
        if home == self._peers.server or not client:  # asked there, or of subscribers only
            return True
        return self._vouching.allows(home, client, "subscribe", topic, now)

    def knows(self, home: str, topic: str, client: str) -> bool:
        """Tell whether a home has told of a subscriber, or without a client of any."""
        return home == self._peers.server or self._directory.is_known(topic, home, client)

    def drop_forbidden(self, client: str) -> None:
        """Forget what a client subscribed to and may not any more."""
        for topic in self._directory.topics_of(client):
            if self._authoriser.authorise(client, "subscribe", topic) is not None:
                self._directory.forget_client(client, topic)

    def _on_subscribers(self, home: str, message: Subscribers, now: float) -> None:
        topic = message.topic
        if not self._concerns(topic):
            if message.request:
                self._peers.send(home, SubscribersKnown(message.request))
            return
        allowed = tuple(
            one
            for one in message.clients
            if self._vouching.allows(home, one[0], "subscribe", topic, now)
        )
        self._directory.on_subscribers(home, structs.replace(message, clients=allowed))
        self._on_known()
        if message.request and len(allowed) == len(message.clients):
            ends = dict(self._ends(topic))
            self._peers.send(home, SubscribersKnown(message.request, ends))

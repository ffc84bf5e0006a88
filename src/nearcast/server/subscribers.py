"""Who subscribes to the topics that a server manages, where they are, and where their home is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nearcast.broker.audiences import SubscriberTable
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    Unsubscribed,
)
from nearcast.wire.areas import check_places
from nearcast.wire.terms import NO_TERMS, Terms, check_terms

__all__ = ["SubscriberDirectory"]


class SubscriberDirectory:
    """Subscribers as their homes told.

    A client on its way from one home to the next may be told of by both: each home speaks for
    itself only, and clients drop what reaches them twice.
    """

    def __init__(self) -> None:
        self.table = SubscriberTable()
        """All of them, by topic; what brokers look into."""
        self._homes: dict[str, dict[str, dict[str, Terms]]] = {}
        """By topic or pattern, and subscriber: the homes that told of it, and of its terms."""
        self._told: Counter[tuple[str, str]] = Counter()
        """By home and client: how many subscriptions the home told of."""

    def homes_of(self, topic: str, client: str) -> tuple[str, ...]:
        """Return the homes of a subscriber."""
        return tuple(self._homes.get(topic, {}).get(client, ()))

    def is_known(self, topic: str, home: str, client: str = "") -> bool:
        """Tell whether a home told of a subscriber of a topic, or without a client of any."""
        told = [self._homes.get(name, {}) for name in self.table.names(topic)]
        if client:
            return any(home in one.get(client, ()) for one in told)
        return any(home in homes for one in told for homes in one.values())

    def by_home(self, topic: str, clients: Iterable[str]) -> dict[str, list[str]]:
        """Return subscribers of a topic sorted by their homes."""
        found: dict[str, list[str]] = {}
        told = [self._homes.get(name, {}) for name in self.table.names(topic)]
        for client in clients:
            for home in dict.fromkeys(one for homes in told for one in homes.get(client, ())):
                found.setdefault(home, []).append(client)
        return found

    def on_subscribers(self, home: str, message: Subscribers) -> None:
        """Take what a home says about a topic; WireError when terms or places have a mistake."""
        check_places((x_km, y_km) for _, x_km, y_km in message.clients)
        for terms in message.terms.values():
            check_terms(terms)
        if message.complete:
            told = {client for client, _, _ in message.clients}
            known = self._homes.get(message.topic, {})
            for client in [one for one, homes in known.items() if home in homes]:
                if client not in told:
                    self._withdraw(message.topic, client, home)
        for client, x_km, y_km in message.clients:
            homes = self._homes.setdefault(message.topic, {}).setdefault(client, {})
            terms = message.terms.get(client, NO_TERMS)
            is_new = home not in homes
            if is_new or homes[home] != terms:
                homes[home] = terms
                self.table.subscribe(message.topic, client, _together(homes))
            if is_new:
                self._told[home, client] += 1
                self.table.note_change(message.topic)  # also of one that is known at another home
            self.table.move(client, x_km, y_km)

    def on_unsubscribed(self, home: str, message: Unsubscribed) -> None:
        """Forget clients of a home; one that another home told of stays."""
        for client in message.clients:
            self._withdraw(message.topic, client, home)

    def on_moved(self, home: str, message: Moved) -> None:
        """Take the places of clients of a home; of others it says nothing that counts."""
        check_places((x_km, y_km) for _, x_km, y_km in message.clients)
        for client, x_km, y_km in message.clients:
            if (home, client) in self._told:
                self.table.move(client, x_km, y_km)

    def forget_home(self, home: str) -> None:
        """Forget all that a home told."""
        for topic, known in list(self._homes.items()):
            for client in [one for one, homes in known.items() if home in homes]:
                self._withdraw(topic, client, home)

    def topics_of(self, client: str) -> list[str]:
        """Return what a client subscribes to."""
        return [topic for topic, known in self._homes.items() if client in known]

    def forget_client(self, client: str, topic: str) -> None:
        """Forget a subscriber of a topic, whichever homes told of it."""
        for home in self.homes_of(topic, client):
            self._withdraw(topic, client, home)

    def _withdraw(self, topic: str, client: str, home: str) -> None:
        known = self._homes.get(topic, {})
        homes = known.get(client, {})
        if homes.pop(home, None) is not None:
            self._told[home, client] -= 1
            if not self._told[home, client]:
                del self._told[home, client]
        self.table.note_change(topic)
        if homes:
            self.table.subscribe(topic, client, _together(homes))
        else:
            self.table.unsubscribe(topic, client)
            known.pop(client, None)
        if not known:
            self._homes.pop(topic, None)


def _together(homes: dict[str, Terms]) -> tuple[Terms, ...]:
    """Return the terms of a client that several homes told of; none when one says everything."""
    terms = tuple(dict.fromkeys(homes.values()))
    return () if NO_TERMS in terms else terms

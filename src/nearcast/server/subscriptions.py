"""The subscriptions of clients here: told to all servers, confirmed when those know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.mesh_messages import (
    Manages,
    Moved,
    Subscribers,
    SubscribersKnown,
    Unsubscribed,
)
from nearcast.server.peers import Peers
from nearcast.server.server_settings import EdgeSettings
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscription_updates import SubscriptionUpdates, Update
from nearcast.trust.topic_pattern import is_pattern
from nearcast.wire.messages import Subscribe

__all__ = ["Progress", "Subscriptions"]

Confirm = Callable[[str, int, bool], None]
"""Gets a client, the number of its request, and whether it is granted."""
Ends = Callable[[str], dict[str, int]]
"""Returns the highest offsets of this server's topics that a subscription concerns."""


class Progress(Protocol):
    """How far brokers were heard here; `Resumption`."""

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note where a broker's topics were when a client subscribed."""
        ...

    def brokers(self, wanted: str) -> Iterable[tuple[str, str]]:
        """Return the brokers, with topics, that a subscription concerns."""
        ...

    def grant(self, client: str, request: int, starts: Starts) -> None:
        """Confirm a subscription and say where it starts."""
        ...

    def tell_starts(self, client: str, starts: Starts) -> int:
        """Say where a subscription starts, unless it is too much to say; return how many."""
        ...

    def ask_later(self, broker: str, client: str, topic: str, *, resumes: bool) -> None:
        """Ask a server that is away for what a client missed, once it is back."""
        ...

    def ask_now(self, broker: str, topics: Iterable[str], now: float) -> None:
        """Ask what was to be asked later."""
        ...


_SILENT_S = 1.5
"""A server that takes nothing for this long is not waited for: it is dead, or will be told."""


@dataclass(slots=True)
class _Unconfirmed:
    """A subscription that some servers do not know yet."""

    client: str
    topic: str
    request: int
    """The client's number for it."""
    waits_for: dict[str, float]
    """Servers that have not answered, and until when they may."""
    starts: dict[tuple[str, str], int]
    """By broker and topic: after which offset it is heard."""
    resumes: bool
    """Whether the client had it before."""


class Subscriptions:
    """What clients here want to hear, and who else knows it.

    Parameters
    ----------
    show
        Shows a server the credentials of clients, before it is told of them.
    """

    def __init__(
        self,
        peers: Peers,
        clients: HomeClients,
        directory: SubscriberDirectory,
        brokers_of: Callable[[str], Iterable[str]],
        ends: Ends,
        progress: Progress,
        confirm: Confirm,
        show: Callable[[str, Iterable[str]], None],
        settings: EdgeSettings,
    ) -> None:
        self._ends, self._progress, self._show = ends, progress, show
        self._peers, self._clients, self._directory = peers, clients, directory
        self._brokers_of, self._confirm, self._settings = brokers_of, confirm, settings
        self.updates = SubscriptionUpdates(
            clients, lambda: (peers.server, *peers.others), brokers_of
        )
        self._number = 0
        self._unconfirmed: dict[int, _Unconfirmed] = {}
        self._number_of: dict[tuple[str, str], int] = {}
        """Of what is unconfirmed, by client and topic."""
        peers.on(SubscribersKnown, self._on_known)

    def subscribe(self, client: str, wish: Subscribe, now: float) -> None:
        """Note a subscription; it is confirmed when all servers concerned know it."""
        if not self._peers.is_closed_circle:
            return  # without orders nobody could be told: the client asks again
        request, topic = wish.request, wish.topic
        is_known = topic in self._clients.topics(client)
        self._clients.subscribe(client, topic)  # also when it is asked for again: it is wanted
        number = self._number_of.get((client, topic))
        if number is not None:
            self._unconfirmed[number].request = request
            return
        settings, brokers = self._settings, set(self._brokers_of(topic))
        waits_for = {
            server: now
            + (settings.broker_answers_s if server in brokers else settings.server_answers_s)
            for server in self._peers.others
        }
        own = self._peers.server
        starts = {(own, one): end for one, end in self._ends(topic).items()}
        if is_known or not waits_for:
            self.tell(self.updates.subscribed(client, topic))
            if is_known:  # brokers that came later are heard from their beginning
                before = self._clients.starts(client, topic)
                heard = self._progress.brokers(topic)
                starts = {key: before.get(key, 0) for key in (*starts, *heard, *before)}
            self._grant(client, topic, request, starts)
            return
        self._number += 1
        self._unconfirmed[self._number] = _Unconfirmed(
            client, topic, request, waits_for, starts, wish.resumes
        )
        self._number_of[client, topic] = self._number
        self.tell(self.updates.subscribed(client, topic, self._number))
        if wish.resumes:
            self._progress.tell_starts(client, starts)

    def unsubscribe(self, client: str, request: int, topic: str) -> None:
        """Note the end of a subscription."""
        self._forget_request(client, topic)
        self._clients.unsubscribe(client, topic)
        self.tell(self.updates.unsubscribed(client, [topic]))
        self._confirm(client, request, True)

    def end(self, client: str, topics: Iterable[str]) -> None:
        """Tell servers that a client no longer hears topics here."""
        topics = list(topics)
        for topic in topics:
            self._forget_request(client, topic)
        self.tell(self.updates.unsubscribed(client, topics))

    def forget(self, client: str) -> list[str]:
        """Forget a client that is gone; return what it subscribed to, which others still know."""
        topics = list(self._clients.forget(client))
        for topic in topics:
            self._forget_request(client, topic)
        return topics

    def retell(self, server: str, client: str) -> None:
        """Tell a server again what a client subscribes to."""
        for topic in self._clients.topics(client):
            updates = self.updates.subscribed(client, topic)
            self.tell([(one, message) for one, message in updates if one == server])

    def moved(self, client: str) -> None:
        """Tell brokers where a client is now."""
        self.tell(self.updates.moved(client))

    def expire(self, now: float) -> None:
        """Confirm without servers that did not answer in time: they are told when they are back."""
        for number, one in list(self._unconfirmed.items()):
            late = [
                server
                for server, until in one.waits_for.items()
                if until <= now or self._peers.is_away(server, now, _SILENT_S)
            ]
            for server in late:
                del one.waits_for[server]
                self._progress.ask_later(server, one.client, one.topic, resumes=one.resumes)
            self._confirm_if_known(number)

    def on_manages(self, server: str, message: Manages) -> None:
        """Tell a server that begins to manage a topic its subscribers here."""
        self.tell([self.updates.complete(server, message.topic)])

    def tell(self, updates: Iterable[Update]) -> None:
        """Tell servers about subscribers; this server may be one of them."""
        own, directory = self._peers.server, self._directory
        for server, message in updates:
            if server != own:
                if isinstance(message, Subscribers):
                    self._show(server, (client for client, _, _ in message.clients))
                self._peers.send(server, message)
            elif isinstance(message, Subscribers):
                directory.on_subscribers(own, message)
            elif isinstance(message, Unsubscribed):
                directory.on_unsubscribed(own, message)
            elif isinstance(message, Moved):
                directory.on_moved(own, message)

    def _on_known(self, server: str, message: SubscribersKnown, now: float) -> None:
        one = self._unconfirmed.get(message.request)
        if one is not None and not is_pattern(one.topic):
            # a server that has nothing of the topic yet is heard from its beginning
            self._progress.begin(server, {one.topic: message.ends.get(one.topic, 0)})
        else:
            self._progress.begin(server, message.ends)
        if one is None:  # too late to say where the subscription starts
            self._progress.ask_now(server, message.ends, now)
        else:
            one.waits_for.pop(server, None)
            starts = {(server, topic): end for topic, end in message.ends.items()}
            one.starts.update(starts)
            if one.resumes:  # this one may be asked now, however long others take
                self._progress.tell_starts(one.client, starts)
            self._confirm_if_known(message.request)

    def _confirm_if_known(self, number: int) -> None:
        one = self._unconfirmed[number]
        if not one.waits_for:
            self._forget_request(one.client, one.topic)
            self._grant(one.client, one.topic, one.request, one.starts)

    def _grant(self, client: str, topic: str, request: int, starts: Starts) -> None:
        self._clients.set_starts(client, topic, starts)
        self._progress.grant(client, request, starts)

    def _forget_request(self, client: str, topic: str) -> None:
        number = self._number_of.pop((client, topic), None)
        if number is not None:
            del self._unconfirmed[number]

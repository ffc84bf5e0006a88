"""The subscriptions of clients here: confirmed when the brokers concerned know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.interests import Interest, Interests, Knowledge
from nearcast.server.peers import Peers
from nearcast.server.server_settings import EdgeSettings
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    SubscribersKnown,
    SubscribersWanted,
    Unsubscribed,
)
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscription_updates import SubscriptionUpdates, Update
from nearcast.trust.topic_pattern import matches
from nearcast.wire.messages import Subscribe
from nearcast.wire.terms import wish_terms

__all__ = ["Progress", "Questions", "Subscriptions"]

Confirm = Callable[[str, int, bool], None]
"""Gets a client, the number of its request, and whether it is granted."""
Ends = Callable[[str], dict[str, int]]
"""Returns the highest offsets of this server's topics that a subscription concerns."""


class Progress(Protocol):
    """How far brokers were heard here; `BrokerProgress`."""

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note where a broker's topics were when a client subscribed."""
        ...

    def note_start(self, server: str, offset: int) -> None:
        """Note after which offset the present incarnation of a server begins."""
        ...

    def begin_anew(self, broker: str, topic: str, now: float, *, was_away: bool = False) -> None:
        """Hear a broker from its beginning that has come to have a topic."""
        ...

    def on_told(self, broker: str) -> None:
        """Note that a broker was told all subscribers here of its topics."""
        ...

    def brokers(self, wanted: str) -> Iterable[tuple[str, str]]:
        """Return the brokers, with topics, that a subscription concerns."""
        ...


class Questions(Protocol):
    """What clients are told of where they start, and asked for them; `Resumption`."""

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
        questions: Questions,
        confirm: Confirm,
        show: Callable[[str, Iterable[str]], None],
        settings: EdgeSettings,
    ) -> None:
        self._ends, self._show = ends, show
        self._progress, self._questions = progress, questions
        self._peers, self._clients, self._directory = peers, clients, directory
        self._brokers_of, self._confirm, self._settings = brokers_of, confirm, settings
        self.interests = Interests(clients, 2 * settings.grace_s)
        self._updates = SubscriptionUpdates(peers.server, clients, self.interests)
        self._number = 0
        self._unconfirmed: dict[int, _Unconfirmed] = {}
        self._number_of: dict[tuple[str, str], int] = {}
        """Of what is unconfirmed, by client and topic."""
        peers.on(SubscribersKnown, self._on_known)

    def subscribe(self, client: str, wish: Subscribe, now: float) -> None:
        """Note a subscription; it is confirmed when all servers concerned know it."""
        if not self._peers.is_closed_circle:
            return  # without orders nobody could be told: the client asks again
        request, topic, terms = wish.request, wish.topic, wish_terms(wish)
        is_same = terms == self._clients.terms(client, topic)
        is_known = is_same and topic in self._clients.topics(client)
        # also when it is asked for again: it is wanted
        self._clients.subscribe(client, topic, terms)
        number = self._number_of.get((client, topic))
        if number is not None and is_same:
            self._unconfirmed[number].request = request
            return
        self._forget_request(client, topic)
        interest = self.interests.get(topic) or self._ask_all(topic)
        own = self._peers.server
        starts = {(own, one): end for one, end in self._ends(topic).items()}
        if is_known or not interest.servers:
            self._tell(self._updates.subscribed(client, topic))
            if is_known:  # brokers that came later are heard from their beginning
                before = self._clients.starts(client, topic)
                heard = self._progress.brokers(topic)
                starts = {key: before.get(key, 0) for key in (*starts, *heard, *before)}
            self._grant(client, topic, request, starts)
            return
        settings = self._settings
        brokers = {*interest.holders, *self._brokers_of(topic)}
        waits_for = {
            server: now
            + (settings.broker_answers_s if server in brokers else settings.server_answers_s)
            for server in interest.servers
        }
        self._number += 1
        self._unconfirmed[self._number] = _Unconfirmed(
            client, topic, request, waits_for, starts, wish.resumes
        )
        self._number_of[client, topic] = self._number
        self._tell(self._updates.subscribed(client, topic, self._number))
        if wish.resumes:
            self._questions.tell_starts(client, starts)

    def asked_for(self, topic: str) -> int:
        """Return how many servers a subscription would have asked, because none here has it."""
        return 0 if self.interests.get(topic) is not None else len(self._peers.others)

    def unsubscribe(self, client: str, request: int, topic: str) -> None:
        """Note the end of a subscription."""
        self._forget_request(client, topic)
        self._clients.unsubscribe(client, topic)
        self._tell(self._updates.unsubscribed(client, [topic]))
        self._confirm(client, request, True)

    def end(self, client: str, topics: Iterable[str]) -> None:
        """Tell servers that a client no longer hears topics here."""
        topics = list(topics)
        for topic in topics:
            self._forget_request(client, topic)
        self._tell(self._updates.unsubscribed(client, topics))

    def forget(self, client: str) -> list[str]:
        """Forget a client that is gone; return what it subscribed to, which others still know."""
        topics = list(self._clients.forget(client))
        for topic in topics:
            self._forget_request(client, topic)
        return topics

    def moved(self, client: str) -> None:
        """Tell brokers where a client is now."""
        self._tell(self._updates.moved(client))

    def expire(self, now: float) -> None:
        """Go on without servers that did not answer in time, and forget unused interests."""
        for number, one in list(self._unconfirmed.items()):
            late = [
                server
                for server, until in one.waits_for.items()
                if until <= now or self._peers.is_away(server, now, _SILENT_S)
            ]
            for server in late:  # it is told when it is back
                del one.waits_for[server]
                self._questions.ask_later(server, one.client, one.topic, resumes=one.resumes)
            self._confirm_if_known(number)
        for interest in self.interests.take_unused(self._peers.others, now):
            # each server that still has subscribers of it from here: there are none
            self._tell(self._updates.complete(one, interest.name) for one in interest.holders)

    # Other servers

    def retell(self, server: str, client: str) -> None:
        """Tell a server again what a client subscribes to."""
        for topic in self._clients.topics(client):
            self._retell_one(server, client, topic, self._number_of.get((client, topic), 0))

    def retell_all(self, server: str) -> None:
        """Tell a server everything again: it missed something."""
        for interest in self.interests.known_to(server):
            if interest.is_open(server):
                self._ask(server, interest)
            else:
                self._tell([self._updates.complete(server, interest.name)])

    def on_newcomer(self, server: str) -> None:
        """Ask a server that is new among the others for everything.

        It may have processed messages while this home did not know it, or could not reach it: what
        it has of them is asked for, from its beginning or from where it was last heard.
        """
        for interest in self.interests.all:
            interest.servers[server] = Knowledge.LATE
            self._ask(server, interest)

    def on_restarted(self, server: str) -> None:
        """Note that a server knows nothing any more; it says which topics it has."""
        self.interests.doubt(server, lambda _: True)
        for interest in self.interests.known_to(server):
            if interest.is_open(server):
                self._ask(server, interest)

    def on_forgets(self, server: str, topic: str) -> None:
        """Note that a server has a topic no more: it may come to have it again."""
        self.interests.doubt(server, lambda name: matches(name, topic))

    def on_wanted(self, server: str, message: SubscribersWanted, now: float) -> None:
        """Tell a server the subscribers here of topics that it has now."""
        self._progress.note_start(server, message.start)
        for topic in message.topics:
            is_unheard = is_late = False
            for interest in self.interests.matching(topic):
                knows = interest.servers.get(server)
                if knows is Knowledge.ASKED:  # its answer will say where subscriptions start
                    self._tell([self._updates.complete(server, interest.name)])
                    continue
                is_unheard, is_late = True, is_late or knows is Knowledge.LATE
                if knows is not Knowledge.TOLD:
                    interest.servers[server] = Knowledge.TOLD
                    self._tell([self._updates.complete(server, interest.name)])
            if is_unheard and self._clients.has_listeners(topic):
                self._progress.begin_anew(server, topic, now, was_away=is_late)
        if message.number >= 0:
            self._progress.on_told(server)

    def _ask_all(self, topic: str) -> Interest:
        """Ask all servers whether they have topics of a new interest."""
        self._number += 1
        interest = self.interests.begin(topic, self._number, self._peers.others)
        for server in self._peers.others:
            self._ask(server, interest)
        return interest

    def _ask(self, server: str, interest: Interest) -> None:
        question = Subscribers(interest.name, (), complete=False, request=interest.number)
        self._peers.send(server, question)

    def _on_known(self, server: str, message: SubscribersKnown, now: float) -> None:
        interest = self.interests.asked_as(message.request)
        if interest is not None:
            self._on_answer(server, interest, message.ends, now)
            return
        one = self._unconfirmed.get(message.request)
        self._progress.begin(server, message.ends)
        if one is None:  # too late to say where the subscription starts
            self._questions.ask_now(server, message.ends, now)
        else:
            one.waits_for.pop(server, None)
            starts = {(server, topic): end for topic, end in message.ends.items()}
            one.starts.update(starts)
            if one.resumes:  # this one may be asked now, however long others take
                self._questions.tell_starts(one.client, starts)
            self._confirm_if_known(message.request)

    def _on_answer(
        self, server: str, interest: Interest, ends: Mapping[str, int], now: float
    ) -> None:
        """Hear whether a server has topics of an interest: if so it is told the subscribers."""
        name = interest.name
        numbers = [self._number_of.get((one, name), 0) for one in self._clients.subscribers(name)]
        waiting = [
            (number, self._unconfirmed[number])
            for number in numbers
            if number and server in self._unconfirmed[number].waits_for
        ]
        if not ends:
            if interest.is_open(server):
                del interest.servers[server]
            for number, one in waiting:
                one.waits_for.pop(server)
                self._confirm_if_known(number)
            return
        is_late = interest.servers.get(server) is Knowledge.LATE
        interest.servers[server] = Knowledge.TOLD
        first = waiting[0][0] if waiting else 0
        self._tell([self._updates.complete(server, name, first)])
        for topic in ends if is_late else ():
            if self._clients.has_listeners(topic):
                self._progress.begin_anew(server, topic, now, was_away=True)
        self._progress.begin(server, ends)
        self._questions.ask_now(server, ends, now)
        for number, one in waiting:
            one.waits_for[server] = now + self._settings.broker_answers_s
            if number != first:
                self._retell_one(server, one.client, name, number)

    def _retell_one(self, server: str, client: str, topic: str, number: int) -> None:
        updates = self._updates.subscribed(client, topic, number)
        self._tell(one for one in updates if one[0] == server)

    def _tell(self, updates: Iterable[Update]) -> None:
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

    def _confirm_if_known(self, number: int) -> None:
        one = self._unconfirmed[number]
        if not one.waits_for:
            self._forget_request(one.client, one.topic)
            before = self._clients.starts(one.client, one.topic)  # with other terms
            starts = {key: min(end, before.get(key, end)) for key, end in one.starts.items()}
            self._grant(one.client, one.topic, one.request, starts)

    def _grant(self, client: str, topic: str, request: int, starts: Starts) -> None:
        self._clients.set_starts(client, topic, starts)
        self._questions.grant(client, request, starts)

    def _forget_request(self, client: str, topic: str) -> None:
        number = self._number_of.pop((client, topic), None)
        if number is not None:
            del self._unconfirmed[number]

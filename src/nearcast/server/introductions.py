"""Introductions: a server that has topics asks the others for their subscribers.

It asks when it has its first orders, when it comes to have more topics, and each server that
restarted or missed something. Until all have answered, or took too long, it processes nothing: at its start
publishers are told to wait, later what comes of the new topics is held. Who has not answered may
have stood in for it: the streams of these topics are claimed from that server too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from nearcast.errors import WireError
from nearcast.server.broker_messages import Rumours
from nearcast.server.mesh_messages import Forgets
from nearcast.server.peers import Peers
from nearcast.server.subscriber_messages import (
    SubscribersWanted,
    SyncDone,
)
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.topic_registry import TopicRegistry

__all__ = ["Home", "Introductions"]

_AT_ONCE = 1_000
"""Topics in one message."""
_SILENT_S = 1.5
"""A server that takes nothing for this long is not waited for."""
_LARGEST = 1 << 63
_UNANSWERED = -1
"""The number of a question that others follow."""
_LATE_LIMIT = 64
"""Questions whose late answers still count; who answers no earlier one is asked by claims."""


class Home(Protocol):
    """What clients here subscribe to; `Subscriptions`."""

    def on_newcomer(self, server: str) -> None:
        """Ask a server that is new among the others for everything."""
        ...

    def on_restarted(self, server: str) -> None:
        """Note that a server knows nothing any more."""
        ...

    def retell_all(self, server: str) -> None:
        """Tell a server everything again."""
        ...

    def on_forgets(self, server: str, topic: str) -> None:
        """Note that a server has a topic no more."""
        ...

    def on_wanted(self, server: str, message: SubscribersWanted, now: float) -> None:
        """Tell a server the subscribers here of topics that it has now."""
        ...


@dataclass(slots=True)
class _Question:
    """Whose subscribers of some topics are not known."""

    topics: Collection[str]
    unanswered: dict[str, None]
    silent: dict[str, None] = field(default_factory=dict)
    """Those of them that are not waited for any more."""
    until: float | None = None
    """When it takes too long; None: it was asked in this pass."""


class Introductions:
    """Keeps servers informed about topics and subscribers across restarts.

    Parameters
    ----------
    start
        The offset after which this incarnation begins.
    inform_s
        How long a server waits for the others.
    on_informed
        Is told of topics whose subscribers are known now, and of the time.
    announce
        Tells a server that this one manages a topic.
    """

    def __init__(
        self,
        peers: Peers,
        topics: TopicRegistry,
        directory: SubscriberDirectory,
        start: int,
        inform_s: float,
        on_informed: Callable[[Collection[str], float], None],
        announce: Callable[[str, str], None],
    ) -> None:
        self._peers, self._topics, self._directory = peers, topics, directory
        self._announce = announce
        self._start, self._inform_s, self._on_informed = start, inform_s, on_informed
        self._first = self._number = peers.incarnation
        """Of the question at the start: an answer to an earlier incarnation is none."""
        self._questions: dict[int, _Question] = {}
        self._late: dict[int, _Question] = {}
        """Questions that are over, though some servers have not answered."""
        self._has_begun = False
        """Whether there are orders; without them it is not known how topics are processed."""
        self._uninformed: dict[str, None] = {}
        """Topics that came after the start and whose subscribers are not known."""
        self.home: Home | None = None
        """The clients here; None for the cloud server."""
        peers.on(Forgets, self._on_forgets)
        peers.on(SubscribersWanted, self._on_wanted)
        peers.on(SyncDone, self._on_sync_done)

    def begin(self) -> None:
        """Note that this server has its first orders: it waits to be informed."""
        self._has_begun = True
        topics = tuple(self._topics.here)
        self._questions[self._first] = _Question(topics, dict(self._peers.others))

    def ask(self, topics: Iterable[str]) -> None:
        """Ask all others for the subscribers of topics that this server has come to have."""
        if not self._has_begun or not self._peers.others:
            return  # all are introduced when it has
        topics = tuple(topics)
        self._number += 1
        self._questions[self._number] = _Question(topics, dict(self._peers.others))
        self._uninformed.update(dict.fromkeys(topics))
        for server in self._peers.others:
            self._ask(server, topics, self._number)

    def is_informed(self) -> bool:
        """Tell whether all subscribers were known since the start, or somebody took too long."""
        return self._has_begun and self._first not in self._questions

    def knows_subscribers(self, topic: str) -> bool:
        """Tell whether the subscribers of a topic are known, or somebody takes too long to tell."""
        return topic not in self._uninformed

    def is_introduced(self, topic: str) -> bool:
        """Tell whether the others were asked for all of a topic, and have answered or are silent."""
        return self.is_informed() and self.knows_subscribers(topic)

    def on_restarted(self, server: str) -> None:
        """Forget what a server told before it restarted, and tell it everything."""
        self._directory.forget_home(server)
        self._topics.on_restarted(server)
        self.introduce(server)
        if self.home is not None:
            self.home.on_restarted(server)

    def on_newcomer(self, server: str) -> None:
        """Tell a server everything that orders have named for the first time."""
        self.introduce(server)
        if self.home is not None:
            self.home.on_newcomer(server)

    def on_gap(self, server: str) -> None:
        """Tell a server everything that missed something."""
        self.introduce(server)
        if self.home is not None:
            self.home.retell_all(server)

    def introduce(self, server: str) -> None:
        """Tell a server which topics are here, and ask for their subscribers."""
        if server in self._peers.others:
            for topic in self._topics.shared_with(server):
                self._announce(server, topic)
            self._ask(server, self._topics.here, self._first)
            for number, question in self._questions.items():
                if number != self._first and server in question.unanswered:
                    self._ask(server, question.topics, number)

    def finish(self, now: float) -> None:
        """End a pass: go on without servers that are away or took too long."""
        if not self._questions:
            return
        for number, question in list(self._questions.items()):
            if question.until is None:
                question.until = now + self._inform_s
            away = (one for one in question.unanswered if self._peers.is_away(one, now, _SILENT_S))
            for server in list(away):
                del question.unanswered[server]
                question.silent[server] = None
            if not question.unanswered or now >= question.until:
                self._end(number, now)

    def next_wakeup(self) -> float:
        """Return when to call `finish` at the latest."""
        if not self._questions:
            return float("inf")
        times = (one.until for one in self._questions.values() if one.until is not None)
        return min(times, default=float("inf"))

    def _ask(self, server: str, topics: Collection[str], number: int) -> None:
        names = tuple(topics)
        for end in range(_AT_ONCE, len(names) + _AT_ONCE + (not names), _AT_ONCE):
            is_last = end >= len(names)
            some = names[end - _AT_ONCE : end]
            answered = number if is_last else _UNANSWERED
            self._peers.send(server, SubscribersWanted(some, answered, self._start))

    def _on_wanted(self, server: str, message: SubscribersWanted, now: float) -> None:
        if len(message.topics) > _AT_ONCE or not 0 <= message.start < _LARGEST:
            raise WireError("SubscribersWanted: too many topics, or a number is out of range")
        if self.home is not None:
            self.home.on_wanted(server, message, now)
        rumours = self._topics.rumours(message.topics, server)
        if rumours:  # before the answer: it takes nothing of these topics until then
            self._peers.send(server, Rumours(rumours))
        if message.number >= 0:
            self._peers.send(server, SyncDone(message.number))

    def _on_forgets(self, server: str, message: Forgets, _now: float) -> None:
        self._topics.on_forgets(server, message.topic)
        if self.home is not None:
            self.home.on_forgets(server, message.topic)

    def _on_sync_done(self, server: str, message: SyncDone, now: float) -> None:
        number = message.number
        question = self._questions.get(number)
        if question is not None:
            question.unanswered.pop(server, None)
            question.silent.pop(server, None)
            if not question.unanswered:
                self._end(number, now)
        elif number in self._late and server in self._late[number].silent:
            late = self._late[number]
            del late.silent[server]
            self._topics.acquit(server, late.topics)
            if not late.silent:
                del self._late[number]

    def _end(self, number: int, now: float) -> None:
        question = self._questions.pop(number)
        question.silent |= question.unanswered
        if question.silent:
            self._topics.suspect(question.topics, question.silent)
            # an answer to an earlier question says nothing of what was done since
            earlier = [n for n, one in self._late.items() if one.silent.keys() & question.silent]
            for one in earlier or list(self._late)[: max(0, len(self._late) - _LATE_LIMIT + 1)]:
                del self._late[one]
            self._late[number] = question
        for topic in question.topics:
            self._uninformed.pop(topic, None)
        self._on_informed(question.topics, now)

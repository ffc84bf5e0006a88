"""How far this home has heard each broker of each topic.

What a broker sends comes in order, so the highest offset says it. When the broker restarted, or had
to drop messages for this server, the home asks for what came after that offset, for all its
clients, a restarted one not before it was told of all of them; until the answer is complete, what
comes meanwhile does not count as progress. Each question has a number: an answer to one before does
not say how far the clients are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients
from nearcast.server.mesh_messages import ReplayedNotice, Resume, Resumed
from nearcast.server.peers import Peers
from nearcast.server.selection import Selection
from nearcast.trust.topic_pattern import matches
from nearcast.wire.hot_frames import decode_notify, notify_frame, time_field
from nearcast.wire.messages import Notify
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["BrokerProgress", "read_notices"]

_BEHIND_LIMIT = 100_000
"""Topics of brokers that are new here and have not answered."""


class _Behind(NamedTuple):
    """A question for all clients here."""

    number: int
    asked_at: float
    since: int
    """After which offset."""


class BrokerProgress:
    """The offsets heard, and questions for all clients here that wait for answers.

    Parameters
    ----------
    next_number
        Gives the numbers of questions.
    selection
        Knows what clients want.
    """

    def __init__(
        self,
        peers: Peers,
        clients: HomeClients,
        sessions: ServerSessions,
        effects: Effects,
        next_number: Callable[[], int],
        selection: Selection,
    ) -> None:
        self._peers, self._clients, self._selection = peers, clients, selection
        self._sessions, self._effects, self._next_number = sessions, effects, next_number
        self._starts: dict[str, int] = {}
        """By server: the offset after which its incarnation begins that was last heard."""
        self._heard: dict[str, dict[str, int]] = {}
        """By broker and topic: the highest offset."""
        self._behind: dict[tuple[str, str], _Behind] = {}
        """By broker and topic."""
        self._limit = effects.tables.add("brokers_behind", _BEHIND_LIMIT, lambda: len(self._behind))
        self._unasked: dict[str, None] = {}
        """Brokers that restarted and do not know the subscribers here: they are asked later."""

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note where a broker's topics were when clients here subscribed."""
        heard = self._heard.setdefault(broker, {})
        for topic, end in ends.items():
            is_known = topic in heard or (broker, topic) in self._behind
            if not is_known and self._clients.has_listeners(topic):
                heard[topic] = end

    def begin_anew(self, broker: str, topic: str, now: float, *, was_away: bool = False) -> None:
        """Hear a broker from its beginning that has come to have a topic.

        It may have gone on without this home for a while, when that was out of reach. If it was
        away, it is asked also when it was heard before: for what came since.
        """
        heard = self._heard.get(broker, {})
        if (broker, topic) in self._behind or (topic in heard and not was_away):
            return
        if len(self._behind) >= self._limit:
            self._effects.counts["resumes_refused"] += 1
            return
        self._ask(broker, topic, heard.get(topic, 0), now)
        self._note_unsettled()

    def note_start(self, server: str, offset: int) -> None:
        """Note after which offset the present incarnation of a server begins."""
        self._starts[server] = offset

    def note(self, broker: str, reached: Mapping[str, int]) -> None:
        """Note the last offset by topic of what a broker sent."""
        heard, behind = self._heard.setdefault(broker, {}), self._behind
        for topic, offset in reached.items():
            is_known = topic in heard or self._clients.has_listeners(topic)
            if is_known and (broker, topic) not in behind:
                heard[topic] = offset

    def heard(self, broker: str, topic: str) -> int:
        """Return the last offset of a broker that is known here: heard, or where it started."""
        return self._heard.get(broker, {}).get(topic, self._starts.get(broker, 0))

    def brokers(self, wanted: str) -> list[tuple[str, str]]:
        """Return the brokers that were heard of topics that a subscription concerns."""
        return [
            (broker, topic)
            for broker, heard in self._heard.items()
            for topic in heard
            if matches(wanted, topic)
        ]

    def on_interrupted(self, broker: str, now: float, *, restarted: bool) -> None:
        """Ask a broker again that has restarted, or that dropped messages for this server.

        One that restarted asks for the subscribers here, and is asked after it was told: what it
        told some of them only, before it knew the others, has to be in its answer.
        """
        heard = self._heard.get(broker, {})
        for topic in [one for one in heard if not self._clients.has_listeners(one)]:
            del heard[topic]
        for key in [one for one in self._behind if one[0] == broker and one[1] not in heard]:
            del self._behind[key]  # it says anew which topics it has
        if restarted:
            self._unasked[broker] = None
        for topic, since in heard.items():
            behind = self._behind.get((broker, topic))
            self._ask(broker, topic, since, behind.asked_at if behind else now)
        self._note_unsettled()

    def on_told(self, broker: str) -> None:
        """Ask a broker that was told all subscribers here of its topics."""
        if broker in self._unasked:
            del self._unasked[broker]
            for (server, topic), behind in self._behind.items():
                if server == broker:
                    self._peers.send(broker, Resume(topic, "", behind.since, behind.number))

    def _ask(self, broker: str, topic: str, since: int, asked_at: float) -> None:
        number = self._next_number()
        self._behind[broker, topic] = _Behind(number, asked_at, since)
        if broker not in self._unasked:
            self._peers.send(broker, Resume(topic, "", since, number))

    def forget_unheard(self) -> None:
        """Forget questions that nobody here wants an answer to any more."""
        for key in [one for one in self._behind if not self._clients.has_listeners(one[1])]:
            del self._behind[key]
            self._heard.get(key[0], {}).pop(key[1], None)
        self._note_unsettled()

    def on_resumed(self, broker: str, message: Resumed, now: float) -> None:
        """Tell the clients here what a broker has told again."""
        key, notified = (broker, message.topic), time_field(self._effects.site_clock.there_us(now))
        behind = self._behind.get(key)
        if behind is None or behind.number != message.number:
            return
        for notify, notice in read_notices(broker, message):
            for client in self._receivers(broker, notify, notice):
                body = self._selection.body_for(notify, notice.body, client, notice.place, now)
                if body is not None:
                    self._sessions.notify(client, (notify_frame(body, notified),))
        if message.is_last:
            del self._behind[key]
            self._heard.setdefault(broker, {})[message.topic] = message.through
            self._note_unsettled()
            if message.missed:
                for client in self._clients.listeners(message.topic):
                    self._sessions.note_lost(client)  # it asks for itself, and hears what is gone

    def _receivers(self, broker: str, notify: Notify, notice: ReplayedNotice) -> Iterable[str]:
        clients = self._clients
        listeners = clients.listeners(notify.topic)
        if notice.clients is not None:
            listeners = [one for one in listeners if one in notice.clients]
        return [
            one
            for one in listeners
            if (one != notify.publisher or notice.clients is not None)
            and notify.offset > clients.start(one, broker, notify.topic)
        ]

    def _note_unsettled(self) -> None:
        self._sessions.unsettled_since = min(
            (one.asked_at for one in self._behind.values()), default=float("inf")
        )


def read_notices(broker: str, message: Resumed) -> Iterator[tuple[Notify, ReplayedNotice]]:
    """Yield what a broker tells again; WireError at something that it has not to tell."""
    for notice in message.notices:
        notify = decode_notify(notice.body)
        if (notify.topic, notify.broker) != (message.topic, broker):
            raise WireError("Resumed holds something of another topic or broker")
        yield notify, notice

"""A home asks brokers for what its clients missed: those that are back, or whose broker is.

Clients keep their own offsets and ask with a Resume frame. What they missed is fetched in pieces,
the next one when the client has confirmed enough: all of it at once would be more than a session
can take, again and again. Each question has a number: an answer to one that is no longer asked, of
a session before say, does not say how far the client is in this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

from nearcast.server.broker_progress import BrokerProgress, read_notices
from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.mesh_messages import Resume, Resumed
from nearcast.server.peers import Peers
from nearcast.server.replays import Replays
from nearcast.server.selection import Selection
from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire import messages
from nearcast.wire.hot_frames import notify_frame, time_field
from nearcast.wire.messages import Confirm, Gap
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["Resumption"]

_ASK_AGAIN_S = 5.0
"""How long a client's question may stay without an answer before it is asked again."""
_ASKED_LIMIT = 256
"""Questions of one client that may wait for answers."""
_CAUGHT_UP_LIMIT = 4_096
"""Answers to one client that are remembered."""
_STARTS_LIMIT = 256
"""Brokers of topics that a client is told the offsets of when it subscribes to a pattern."""


@dataclass(slots=True)
class _Question:
    """A question of a client to a broker about a topic."""

    number: int
    """Of its next answer."""
    asked_at: float
    since: int
    """After which offset."""
    cut: int | None = None
    """Up to which offset the client was told when it had no more room; None: it has."""
    rest: int | None = None
    """After which offset the rest is to be asked for when it has room; None: a broker is asked."""
    reached: int = 0
    """Up to which offset pieces have come: a broker cannot go on for ever with nothing."""
    missed: int = 0


class Resumption:
    """Questions of clients that wait for answers.

    Parameters
    ----------
    replays
        Answers for this server's own broker.
    show
        Shows a server the credentials of clients, before it is asked for them.
    selection
        Knows what clients want of it.
    """

    def __init__(
        self,
        peers: Peers,
        clients: HomeClients,
        sessions: ServerSessions,
        replays: Replays,
        effects: Effects,
        show: Callable[[str, Iterable[str]], None],
        selection: Selection,
    ) -> None:
        self._peers, self._clients, self._sessions = peers, clients, sessions
        self._replays, self._effects, self._show = replays, effects, show
        self._selection = selection
        self._next_number = count(peers.incarnation + 1).__next__
        """For questions: after a restart others than before."""
        self.progress = BrokerProgress(
            peers, clients, sessions, effects, self._next_number, selection
        )
        self._asked: dict[str, dict[tuple[str, str], _Question]] = {}
        """By client: its questions by broker and topic."""
        self._full: dict[str, None] = {}
        """Clients that have no room for the rest of answers."""
        self._caught_up: dict[str, dict[tuple[str, str], Gap | None]] = {}
        """By client, broker and topic: the answer in this session, which may be lost on the way;
        None: in one before, from which this one goes on."""
        self._owed: dict[str, dict[tuple[str, str], int]] = {}
        """By broker: clients with subscriptions for which it has to be asked when it is back, and
        after which offset; until it has answered."""
        replays.answer_here = self._on_resumed
        peers.on(Resumed, self._on_resumed)

    def on_interrupted(self, broker: str, now: float, *, restarted: bool) -> None:
        """Ask a broker again that has restarted, or that dropped messages for this server."""
        self.progress.on_interrupted(broker, now, restarted=restarted)
        owed = self._owed.get(broker, ())
        self.ask_now(broker, (topic for _, topic in owed if not is_pattern(topic)), now)

    def on_timer(self) -> None:
        """Forget questions that nobody here wants an answer to any more."""
        self.progress.forget_unheard()
        for broker, owed in list(self._owed.items()):
            for wish in [one for one in owed if not self._clients.hears(*one)]:
                del owed[wish]
            if not owed or broker not in self._peers.others:
                del self._owed[broker]

    # Clients

    def ask(self, client: str, question: messages.Resume, now: float) -> None:
        """Ask for a client that is back; nothing follows when it does not subscribe to the topic."""
        topic, broker = question.topic, question.broker
        if not self._clients.hears(client, topic):
            self._effects.counts["resumes_refused"] += 1
            return
        caught_up = self._caught_up.get(client, {})
        if (broker, topic) in caught_up:
            answer = caught_up[broker, topic] or Gap(topic, broker, 0, question.since)
            self._sessions.tell(client, answer)
            return
        asked = self._asked.setdefault(client, {})
        known = asked.get((broker, topic))
        is_early = known is not None and (
            known.rest is not None or now < known.asked_at + _ASK_AGAIN_S
        )
        if is_early or len(asked) >= _ASKED_LIMIT or not self._peers.is_closed_circle:
            return  # it asks again; without orders nobody knows who the brokers are
        if broker == self._peers.server or broker in self._peers.others:
            if known is None:
                known = asked[broker, topic] = _Question(self._next_number(), now, question.since)
            known.asked_at = now  # the same one again: pieces of its answer may have come
            self._send(broker, topic, client, known)
        else:  # no server of the site any more: nobody has what it told
            self._sessions.tell(client, Gap(topic, broker, 0, 0))

    def go_on(self, now: float) -> None:
        """Ask for the rest of what clients missed that have room again."""
        if not self._full:
            return
        for client in [one for one in self._full if self._sessions.has_room(one)]:
            del self._full[client]
            for (broker, topic), question in self._asked.get(client, {}).items():
                if question.rest is not None:
                    question.since, question.rest, question.asked_at = question.rest, None, now
                    self._send(broker, topic, client, question)

    def _send(self, broker: str, topic: str, client: str, question: _Question) -> None:
        since, number = question.since, question.number
        if broker == self._peers.server:
            self._replays.ask(broker, topic, client, since, number)
        else:
            self._show(broker, (client,))
            self._peers.send(broker, Resume(topic, client, since, number))

    def begin_session(self, client: str, *, goes_on: bool) -> None:
        """Note a client's new session; nothing is missing where it goes on with its last one."""
        if goes_on:
            asked = self._asked.pop(client, {})
            self._asked[client] = {
                (broker, topic): question
                for (broker, topic), question in asked.items()
                if (client, topic) in self._owed.get(broker, {})  # the client does not ask
            }
            self._caught_up[client] = dict.fromkeys(self._caught_up.get(client, ()))
        else:
            self.forget(client)

    def ask_later(self, broker: str, client: str, topic: str, *, resumes: bool) -> None:
        """Ask a server that is away for what a client missed, once it is back.

        The client may not know it: it may have become a broker of the topic meanwhile. For a new
        subscription it tells what it processed after the last that was heard here, or since the
        start that was last heard of when nobody here heard more: maybe more than came after the
        subscription, also when it restarts before it is back.
        """
        since = 0 if resumes else self.progress.heard(broker, topic)
        self._owed.setdefault(broker, {})[client, topic] = since

    def ask_now(self, broker: str, topics: Iterable[str], now: float) -> None:
        """Ask what was to be asked later, of topics that the broker has."""
        owed, names = self._owed.get(broker, {}), dict.fromkeys(topics)
        for (client, wanted), since in list(owed.items()):
            concerned = names if is_pattern(wanted) else (wanted,)
            for topic in concerned:
                is_wanted = topic in names and matches(wanted, topic)
                if is_wanted and self._clients.hears(client, topic):
                    owed.pop((client, wanted), None)
                    owed[client, topic] = since
                    question = _Question(self._next_number(), now, since)
                    self._asked.setdefault(client, {})[broker, topic] = question
                    self._send(broker, topic, client, question)

    def forget(self, client: str) -> None:
        """Forget the questions of a session that ended."""
        for owed in self._owed.values():
            for key in [one for one in owed if one[0] == client]:
                del owed[key]
        self._asked.pop(client, None)
        self._full.pop(client, None)
        self._caught_up.pop(client, None)

    def grant(self, client: str, request: int, starts: Starts) -> None:
        """Confirm a subscription and say where it starts."""
        told = self.tell_starts(client, starts)
        self._sessions.tell(client, Confirm(request, True, starts=told))

    def tell_starts(self, client: str, starts: Starts) -> int:
        """Say where a subscription starts, unless it is too much to say; return how many."""
        if len(starts) > _STARTS_LIMIT:
            return 0
        for (broker, topic), offset in starts.items():
            self._sessions.tell(client, Gap(topic, broker, 0, offset, answer=False))
        return len(starts)

    # Answers

    def _on_resumed(self, broker: str, message: Resumed, now: float) -> None:
        if not message.client:
            self.progress.on_resumed(broker, message, now)
            return
        client, notified = message.client, time_field(self._effects.site_clock.there_us(now))
        question = self._asked.get(client, {}).get((broker, message.topic))
        if question is None or question.number != message.number:
            return  # what it tells may have gone into a session before
        for notify, notice in read_notices(broker, message):
            if not self._is_cut(question, client, notify.offset):
                body = self._selection.body_for(notify, notice.body, client, notice.place, now)
                if body is not None:
                    self._sessions.notify(client, (notify_frame(body, notified),))
        if message.is_last:
            self._end_piece(broker, message, question)

    def _end_piece(self, broker: str, message: Resumed, question: _Question) -> None:
        """Go on with the rest when the client has room for it; without a rest, say so."""
        client, topic = message.client, message.topic
        question.missed += message.missed
        rest, question.cut = question.cut, None
        if rest is None and message.has_more and message.through > question.reached:
            rest = question.reached = message.through
        if rest is not None:
            question.rest, self._full[client] = rest, None
            question.number = self._next_number()  # the same piece may come once more
            if not question.missed:  # else in a next session it is counted again
                self._sessions.tell(client, Gap(topic, broker, 0, rest, has_more=True))
            return
        self._owed.get(broker, {}).pop((client, topic), None)
        del self._asked[client][broker, topic]
        gap = Gap(topic, broker, question.missed, message.through)
        self._sessions.tell(client, gap)
        caught_up = self._caught_up.setdefault(client, {})
        if len(caught_up) < _CAUGHT_UP_LIMIT:
            caught_up[broker, topic] = gap
        self._effects.counts["notifications_missed"] += question.missed

    def _is_cut(self, question: _Question, client: str, offset: int) -> bool:
        """Tell whether a client has no more room for the rest of an answer."""
        if question.cut is None and not self._sessions.has_room(client):
            question.cut = offset - 1  # other parts of the same publication come again
        return question.cut is not None

"""A home asks brokers again: for all its clients after an interruption, for one that is back.

The home keeps how far it has heard each broker of each topic: what a broker sends comes in order,
so the highest offset says it. When the broker restarted, or had to drop messages for this server,
the home asks for what came after that offset; until the answer is complete, what comes meanwhile
does not count as progress. Clients keep their own offsets and ask with a Resume frame. What they
missed is fetched in pieces, the next one when the client has confirmed enough: all of it at once
would be more than a session can take, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.mesh_messages import ReplayedNotice, Resume, Resumed
from nearcast.server.peers import Peers
from nearcast.server.replays import Replays
from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire import messages
from nearcast.wire.hot_frames import decode_notify, notify_frame, time_field
from nearcast.wire.messages import Confirm, Gap, Notify
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["Resumption"]

_ASK_AGAIN_S = 5.0
"""How long a client's question may stay without an answer before it is asked again."""


_ASKED_LIMIT = 256
"""Questions of one client that may wait for answers."""
_BEHIND_LIMIT = 100_000
"""Topics of brokers that are new here and have not answered."""
_CAUGHT_UP_LIMIT = 4_096
"""Answers to one client that are remembered."""
_STARTS_LIMIT = 256
"""Brokers of topics that a client is told the offsets of when it subscribes to a pattern."""


@dataclass(slots=True)
class _Question:
    """A client's question to a broker about a topic."""

    asked_at: float
    cut: int | None = None
    """Up to which offset the client was told when it had no more room; None: it has."""
    rest: int | None = None
    """After which offset the rest is to be asked for when it has room; None: a broker is asked."""
    reached: int = 0
    """Up to which offset pieces have come: a broker cannot go on for ever with nothing."""
    missed: int = 0


class Resumption:
    """What this home has heard of each broker, and questions that wait for answers.

    Parameters
    ----------
    replays
        Answers for this server's own broker.
    show
        Shows a server the credentials of clients, before it is asked for them.
    """

    def __init__(
        self,
        peers: Peers,
        clients: HomeClients,
        sessions: ServerSessions,
        replays: Replays,
        effects: Effects,
        show: Callable[[str, Iterable[str]], None],
    ) -> None:
        self._peers, self._clients, self._sessions = peers, clients, sessions
        self._replays, self._effects, self._show = replays, effects, show
        self._starts: dict[str, int] = {}
        """By server: the offset after which its incarnation begins that was last heard."""
        self._heard: dict[str, dict[str, int]] = {}
        """By broker and topic: the highest offset."""
        self._behind: dict[tuple[str, str], float] = {}
        """Broker and topic of questions for all clients here, and since when they wait."""
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

    # What brokers tell

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note where a broker's topics were when clients here subscribed."""
        heard = self._heard.setdefault(broker, {})
        for topic, end in ends.items():
            if topic not in heard and self._clients.has_listeners(topic):
                heard[topic] = end

    def begin_anew(self, broker: str, topic: str, now: float) -> None:
        """Hear a broker from its beginning that has come to have a topic.

        It may have gone on without this home for a while, when that was out of reach.
        """
        if topic not in self._heard.get(broker, {}) and (broker, topic) not in self._behind:
            if len(self._behind) >= _BEHIND_LIMIT:
                self._effects.counts["resumes_refused"] += 1
                return
            self._behind[broker, topic] = now
            self._peers.send(broker, Resume(topic, "", 0))
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

    def brokers(self, wanted: str) -> list[tuple[str, str]]:
        """Return the brokers that were heard of topics that a subscription concerns."""
        return [
            (broker, topic)
            for broker, heard in self._heard.items()
            for topic in heard
            if matches(wanted, topic)
        ]

    def on_interrupted(self, broker: str, now: float) -> None:
        """Ask a broker again that has restarted, or that dropped messages for this server."""
        heard = self._heard.get(broker, {})
        for topic in [one for one in heard if not self._clients.has_listeners(one)]:
            del heard[topic]
        for key in [one for one in self._behind if one[0] == broker and one[1] not in heard]:
            del self._behind[key]  # it says anew which topics it has
        for topic, since in heard.items():
            self._behind.setdefault((broker, topic), now)
            self._peers.send(broker, Resume(topic, "", since))
        self._note_unsettled()
        owed = self._owed.get(broker, ())
        self.ask_now(broker, (topic for _, topic in owed if not is_pattern(topic)), now)

    def on_timer(self) -> None:
        """Forget questions that nobody here wants an answer to any more."""
        for key in [one for one in self._behind if not self._clients.has_listeners(one[1])]:
            del self._behind[key]
            self._heard.get(key[0], {}).pop(key[1], None)
        for broker, owed in list(self._owed.items()):
            for wish in [one for one in owed if not self._clients.hears(*one)]:
                del owed[wish]
            if not owed or broker not in self._peers.others:
                del self._owed[broker]
        self._note_unsettled()

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
            asked[broker, topic] = _Question(now)
            self._send(broker, topic, client, question.since)
        else:  # no server of the site any more: nobody has what it told
            self._sessions.tell(client, Gap(topic, broker, 0, 0))

    def go_on(self, now: float) -> None:
        """Ask for the rest of what clients missed that have room again."""
        for client in [one for one in self._full if self._sessions.has_room(one)]:
            del self._full[client]
            for (broker, topic), question in self._asked.get(client, {}).items():
                if question.rest is not None:
                    since, question.rest, question.asked_at = question.rest, None, now
                    self._send(broker, topic, client, since)

    def _send(self, broker: str, topic: str, client: str, since: int) -> None:
        if broker == self._peers.server:
            self._replays.ask(broker, topic, client, since)
        else:
            self._show(broker, (client,))
            self._peers.send(broker, Resume(topic, client, since))

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
        start = self._starts.get(broker, 0)
        since = 0 if resumes else self._heard.get(broker, {}).get(topic, start)
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
                    self._show(broker, (client,))
                    self._asked.setdefault(client, {})[broker, topic] = _Question(now)
                    self._peers.send(broker, Resume(topic, client, since))

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
        notified = time_field(int(now * 1e6))
        question = self._asked.get(message.client, {}).get((broker, message.topic))
        for notice in message.notices:
            notify = decode_notify(notice.body)
            if (notify.topic, notify.broker) != (message.topic, broker):
                raise WireError("Resumed holds something of another topic or broker")
            if question is not None and self._is_cut(question, message.client, notify.offset):
                continue
            frame = notify_frame(notice.body, notified)
            for client in self._receivers(message.client, broker, notify, notice):
                self._sessions.notify(client, (frame,))
        if not message.is_last:
            return
        if message.client:
            if question is not None:
                question.missed += message.missed
                rest, question.cut = question.cut, None
                if rest is None and message.has_more and message.through > question.reached:
                    rest = question.reached = message.through
                if rest is not None:
                    question.rest, self._full[message.client] = rest, None
                    if not question.missed:  # else in a next session it is counted again
                        told = Gap(message.topic, broker, 0, rest, has_more=True)
                        self._sessions.tell(message.client, told)
                    return
            asked = self._asked.get(message.client, {})
            self._owed.get(broker, {}).pop((message.client, message.topic), None)
            if asked.pop((broker, message.topic), None) is not None and question is not None:
                gap = Gap(message.topic, broker, question.missed, message.through)
                self._sessions.tell(message.client, gap)
                caught_up = self._caught_up.setdefault(message.client, {})
                if len(caught_up) < _CAUGHT_UP_LIMIT:
                    caught_up[broker, message.topic] = gap
                self._effects.counts["notifications_missed"] += question.missed
            return
        heard = self._heard.setdefault(broker, {})
        was_asked = self._behind.pop((broker, message.topic), None) is not None
        if was_asked or message.topic not in heard:
            heard[message.topic] = message.through
            self._note_unsettled()
        if was_asked and message.missed:
            for client in self._clients.listeners(message.topic):
                self._sessions.note_lost(client)  # it asks for itself, and hears what is gone

    def _is_cut(self, question: _Question, client: str, offset: int) -> bool:
        """Tell whether a client has no more room for the rest of an answer."""
        if question.cut is None and not self._sessions.has_room(client):
            question.cut = offset - 1  # other parts of the same publication come again
        return question.cut is not None

    def _receivers(
        self, client: str, broker: str, notify: Notify, notice: ReplayedNotice
    ) -> Iterable[str]:
        if client:
            return (client,) if (broker, notify.topic) in self._asked.get(client, {}) else ()
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
        self._sessions.unsettled_since = min(self._behind.values(), default=float("inf"))

"""A broker's answers to homes that ask for notifications again.

An answer waits until all that was settled when it was asked for is durable: nobody is told to have
heard what a crash may undo. It also waits until the home has told of the subscribers: what was
settled since then, they hear as it comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from nearcast.broker.broker import Broker
from nearcast.broker.replay import ReplayedNotification
from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import ReplayedNotice, Resume, Resumed
from nearcast.server.peers import Peers
from nearcast.wire.hot_frames import encode_notify

__all__ = ["Replays"]

_WAITING_LIMIT = 10_000
"""Questions that may wait for their answers, half of them of one home; clients repeat what is
refused."""
_PER_PASS = 2_000
"""Notifications, about, after which other events have their turn."""
_PER_ANSWER = 2_000
"""Notifications that a client is told at a time, about; its home asks for the next ones."""
_LOOKED_AT = 200
"""Questions that a pass looks at, ready or not."""
_MESSAGE_BYTES = 64 << 10


class Askers(Protocol):
    """What homes have told, and may ask for a client or, without one, for all that they have."""

    def may_resume(self, home: str, topic: str, client: str, now: float) -> bool:
        """Tell whether a home may ask for a topic's notifications."""
        ...

    def knows(self, home: str, topic: str, client: str) -> bool:
        """Tell whether those that it asks for are notified of what comes."""
        ...


class Replays:
    """Questions of homes, and what the spools have to say to them."""

    def __init__(self, peers: Peers, broker: Broker, effects: Effects, askers: Askers) -> None:
        self._peers, self._broker, self._effects = peers, broker, effects
        self._askers = askers
        self.answer_here: Callable[[str, Resumed, float], None] = lambda *_: None
        """Takes the answers to this server's own clients."""
        self._waiting: dict[tuple[str, str, str], tuple[int, int, int | None]] = {}
        """By home, topic and client: number, after which offset, and up to which, once they are
        known."""
        self._by_home: Counter[str] = Counter()
        """How many of them each home has."""
        self._limit = effects.tables.add("resumes", _WAITING_LIMIT, lambda: len(self._waiting))
        self._has_more = False
        peers.on(Resume, self._on_resume)

    def ask(self, home: str, topic: str, client: str, since: int, number: int) -> None:
        """Take a question; it is answered at the end of this pass or of a later one."""
        key = (home, topic, client)
        if key not in self._waiting and (
            len(self._waiting) >= self._limit or self._by_home[home] >= (self._limit + 1) // 2
        ):
            self._effects.counts["resumes_refused"] += 1
            return
        self._by_home[home] += key not in self._waiting
        self._waiting[key] = (number, since, None)
        self._effects.counts["resumes"] += 1
        self._has_more = True

    def _on_resume(self, home: str, message: Resume, _now: float) -> None:
        self.ask(home, message.topic, message.client, message.since, message.number)

    def try_again(self) -> None:
        """Note that something became durable or known that answers may have waited for."""
        self._has_more = bool(self._waiting)

    def finish(self, now: float) -> None:
        """End a pass: answer what can be answered."""
        if not self._has_more or not self._is_due:  # nearly always
            return
        budget, self._has_more = _PER_PASS, False
        for key in list(self._waiting)[:_LOOKED_AT]:
            number, since, through = self._waiting.pop(key)
            self._by_home[key[0]] -= 1
            managed = self._broker.topics.get(key[1])
            if managed is not None and not self._askers.may_resume(*key, now):
                self._effects.counts["resumes_refused"] += 1
                continue
            if managed is None:
                through = 0
            elif through is None and self._askers.knows(*key):
                through = managed.end
            if through is None or (managed is not None and managed.durable_end < through):
                # behind the others: its sync or the home's subscribers are to come
                self._waiting[key] = (number, since, through)
                self._by_home[key[0]] += 1
                continue
            self._has_more = bool(self._waiting)
            budget -= self._answer(*key, number, since, through, now)
            if budget <= 0:
                return

    def next_wakeup(self) -> float:
        """Return when `finish` has something to do."""
        return float("-inf") if self._is_due else float("inf")

    @property
    def _is_due(self) -> bool:
        """Whether there is something to answer; without orders no topic is known yet."""
        return self._has_more and self._peers.is_closed_circle

    def _answer(
        self,
        home: str,
        topic: str,
        client: str,
        number: int,
        since: int,
        through: int,
        now: float,
    ) -> int:
        managed = self._broker.topics.get(topic)
        if managed is None:
            missed = self._broker.forgotten_since(since)
            gone = Resumed(topic, client, (), missed, 0, is_last=True, number=number)
            self._send(home, gone, now)
            return 1
        found = managed.replay(since, through, client)
        has_more = bool(client) and len(found.notifications) > _PER_ANSWER
        if has_more:
            first, after = (found.notifications[one].notify.offset for one in (0, _PER_ANSWER))
            through = max(first, after - 1)
            told = [one for one in found.notifications if one.notify.offset <= through]
            found = found._replace(notifications=told, through=through)
        self._effects.counts["notifications_replayed"] += len(found.notifications)
        some: list[ReplayedNotice] = []
        size = 0
        for one in found.notifications:
            notice = self._encode(one)
            if notice is None:
                continue
            if size + len(notice.body) > _MESSAGE_BYTES:
                part = Resumed(topic, client, tuple(some), 0, 0, is_last=False, number=number)
                self._send(home, part, now)
                some, size = [], 0
            some.append(notice)
            size += len(notice.body)
        rest, missed = tuple(some), found.missed
        last = Resumed(
            topic,
            client,
            rest,
            missed,
            found.through,
            is_last=True,
            has_more=has_more,
            number=number,
        )
        self._send(home, last, now)
        return 1 + len(found.notifications)

    def _encode(self, one: ReplayedNotification) -> ReplayedNotice | None:
        try:
            return ReplayedNotice(encode_notify(one.notify), one.clients, one.place)
        except WireError:  # it could not be told the first time either, and was counted then
            return None

    def _send(self, home: str, message: Resumed, now: float) -> None:
        if home == self._peers.server:
            self.answer_here(home, message, now)
        else:
            self._peers.send(home, message)

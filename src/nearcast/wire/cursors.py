"""How far a client has heard each broker of each topic, and what it asks for again.

A cursor is the offset up to which the client certainly has all that it was to be told. What has
arrived says less: something before it may be lost, and be repeated later. The server's answers to
reports tell since when something is unconfirmed; what had arrived well before that is certain.

In a new session the client asks each broker for what came after its cursor. Until the answer has
come, notifications of that broker and topic are held back: what was missed comes before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from nearcast.trust.revoked_servers import SignedPage
from nearcast.trust.topic_pattern import matches
from nearcast.wire.actions import Missed
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.messages import Gap, Resume
from nearcast.wire.notification import Notification
from nearcast.wire.settings import WireSettings

__all__ = ["Cursors", "SavedCursor", "SavedCursors"]

_IN_FLIGHT = 64
"""Questions that wait for an answer at a time."""
_LIMIT = 4_096
"""Cursors that a client keeps; the oldest is forgotten first."""
_HELD_LIMIT = 1_024
"""Notifications that are held back in all."""
_HOLD_S = 1.0
"""How long they are held back at most: a broker that is away does not answer."""
_AT_ONCE, _NEVER = float("-inf"), float("inf")

Key = tuple[str, str]
"""Broker and topic."""


class SavedCursor(msgspec.Struct, frozen=True):
    """Up to which offset a broker's notifications of a topic were heard."""

    broker: str
    topic: str
    offset: int


class SavedCursors(msgspec.Struct, frozen=True):
    """All that a later client needs to go on where this one is."""

    subscriptions: tuple[str, ...] = ()
    """What was subscribed to: brokers that came later are heard from their beginning."""
    cursors: tuple[SavedCursor, ...] = ()
    revoked: tuple[SignedPage, ...] = ()
    """What the client knew of servers that no longer count."""


@dataclass(slots=True)
class _Cursor:
    certain: int
    """All up to here has arrived, or was never meant to."""
    latest: int
    """The highest offset that has arrived."""
    told: int | None = None
    """While behind: up to where the answer has come in this session."""
    noted: int | None = None
    """What `latest`, or `told`, was at the server's last answer to a report."""
    is_started: bool = False
    """Whether the server has named the broker in this session."""
    is_behind: bool = False
    """Whether something may have been missed: the broker has not answered in this session."""
    due: float = _NEVER
    """When to ask (again)."""
    wait_s: float = 0.0
    """Above 0: the question was sent, and this is how long to wait for the answer."""
    held: list[Notification] = field(default_factory=list)


class Cursors:
    """A client's cursors; they outlive sessions, and as `saved` the program."""

    def __init__(self, settings: WireSettings, saved: SavedCursors | None = None) -> None:
        self._settings = settings
        self._cursors: dict[Key, _Cursor] = {}
        self._subscriptions: dict[str, bool] = {}
        """Topics and patterns that were confirmed before; True: in this session."""
        self._noted_at = _NEVER
        self._held = 0
        self._release_at = _NEVER
        self.released: list[Notification] = []
        """What is no longer held back, in order; the caller takes it."""
        if saved is not None:
            self._subscriptions = dict.fromkeys(saved.subscriptions, False)
            for one in saved.cursors:
                self._add((one.broker, one.topic), one.offset)

    @property
    def saved(self) -> SavedCursors:
        """What is certain now."""
        return SavedCursors(
            tuple(self._subscriptions),
            tuple(SavedCursor(*key, one.certain) for key, one in self._cursors.items()),
        )

    def note(self, notification: Notification, now: float) -> bool:
        """Note a durable notification; tell whether it may be delivered now."""
        key = (notification.broker, notification.topic)
        cursor = self._cursors.get(key)
        if cursor is None:  # a broker that came after the subscription
            cursor = self._add(key, 0)
            cursor.is_behind = not self._is_heard(notification.topic)
        if notification.offset > cursor.latest:
            cursor.latest = notification.offset
        if not cursor.is_behind:
            return True
        cursor.held.append(notification)
        self._held += 1
        self._release_at = min(self._release_at, now + _HOLD_S)
        if self._held > _HELD_LIMIT:
            self._release_all()
        return False

    def on_settled(self, unsettled_s: float, now: float) -> None:
        """Take the server's answer to a report: all sent earlier than that is confirmed.

        Durations only are compared, with a factor of two for the way: clocks may differ.
        """
        if self._noted_at != _NEVER:
            if now - self._noted_at < 2 * unsettled_s:
                return
            for cursor in self._cursors.values():
                if cursor.noted is not None:
                    cursor.certain = max(cursor.certain, cursor.noted)
        self._noted_at = now
        for cursor in self._cursors.values():
            cursor.noted = cursor.told if cursor.is_behind else cursor.latest

    # Sessions and subscriptions

    def restart(self) -> None:
        """Note a new session: what was on its way in the last one may be lost."""
        self._noted_at = _NEVER
        self._subscriptions = dict.fromkeys(self._subscriptions, False)
        for cursor in self._cursors.values():
            cursor.is_behind, cursor.is_started = True, False
            cursor.noted = cursor.told = None
            cursor.due, cursor.wait_s = _NEVER, 0.0

    def has_starts(self, subscription: str, count: int) -> bool:
        """Tell whether the server has named that many brokers for a subscription."""
        started = (
            cursor.is_started and matches(subscription, topic)
            for (_, topic), cursor in self._cursors.items()
        )
        return not count or sum(started) >= count

    def confirmed(self, subscription: str) -> None:
        """Note that the brokers know a subscription again: ask them for what was missed."""
        self._subscriptions[subscription] = True
        for (_, topic), cursor in self._cursors.items():
            if cursor.is_behind and cursor.due == _NEVER and matches(subscription, topic):
                cursor.due = _AT_ONCE

    def ended(self, subscription: str) -> None:
        """Forget where a subscription was that is no longer wanted."""
        self._subscriptions.pop(subscription, None)
        for key in [one for one in self._cursors if not self._is_wanted(one[1])]:
            self._drop(key)

    def resumes(self, subscription: str) -> bool:
        """Tell whether a subscription was confirmed before."""
        return subscription in self._subscriptions

    # Questions and answers

    def due(self, now: float) -> Iterator[Resume]:
        """Yield the questions to send now."""
        settings = self._settings
        room = _IN_FLIGHT - sum(one.wait_s > 0 for one in self._cursors.values())
        for (broker, topic), cursor in self._cursors.items():
            if cursor.due > now or (not cursor.wait_s and room <= 0):
                continue
            room -= not cursor.wait_s
            cursor.wait_s = next_wait_s(
                cursor.wait_s, settings.longest_retry_s, settings.first_retry_s
            )
            cursor.due = now + cursor.wait_s
            yield Resume(topic, broker, cursor.certain)

    def on_gap(self, gap: Gap) -> Missed | None:
        """Take where a subscription starts, or the answer to a question; return what is gone."""
        key = (gap.broker, gap.topic)
        cursor = self._cursors.get(key)
        if not gap.answer:
            if cursor is None:
                returns = self._is_wanted(gap.topic)
                cursor = self._add(key, 0 if returns else gap.offset)
                cursor.is_behind = returns
            if cursor.is_behind and not cursor.wait_s:  # the broker knows the subscription
                cursor.due = _AT_ONCE
            cursor.is_started = True
            return None
        if gap.has_more:
            if cursor is not None and cursor.is_behind:
                cursor.told = max(cursor.told or cursor.certain, gap.offset)
            return None
        if cursor is None:  # the server has asked a broker that the client did not know
            cursor = self._add(key, 0)
        if gap.offset < cursor.certain:  # the broker is gone, or its log has begun anew
            self._drop(key)
            cursor = self._add(key, gap.offset)
        cursor.latest = max(cursor.latest, gap.offset)
        cursor.is_behind, cursor.due, cursor.wait_s = False, _NEVER, 0.0
        self._release(cursor)
        return Missed(gap.topic, gap.broker, gap.missed) if gap.missed else None

    def expire(self, now: float) -> None:
        """Release what was held back long enough."""
        if self._release_at <= now:
            self._release_all()

    def next_due(self) -> float:
        """Return when `due` or `expire` has something to do."""
        due = min((one.due for one in self._cursors.values()), default=_NEVER)
        return min(due, self._release_at)

    def _add(self, key: Key, offset: int) -> _Cursor:
        if len(self._cursors) >= _LIMIT:
            self._drop(next(iter(self._cursors)))
        cursor = self._cursors[key] = _Cursor(offset, offset)
        return cursor

    def _drop(self, key: Key) -> None:
        self._release(self._cursors.pop(key))

    def _is_wanted(self, topic: str) -> bool:
        return any(matches(one, topic) for one in self._subscriptions)

    def _is_heard(self, topic: str) -> bool:
        """Tell whether brokers know a subscription to the topic, in this session."""
        return any(known and matches(one, topic) for one, known in self._subscriptions.items())

    def _release(self, cursor: _Cursor) -> None:
        held, cursor.held = cursor.held, []
        self._held -= len(held)
        if not self._held:
            self._release_at = _NEVER
        self.released += sorted(held, key=lambda one: one.offset)

    def _release_all(self) -> None:
        for cursor in self._cursors.values():
            self._release(cursor)

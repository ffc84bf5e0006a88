"""Each publisher's notifications of a topic in the order of publication, as far as waiting helps.

A notification says which one all subscribers were told of before it. If the client has not heard
that, it was lost and will be repeated, or comes from another server: the later one waits for it,
for a short time. What comes after all is delivered last, and marked.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

import msgspec

from nearcast.trust.topic_pattern import matches
from nearcast.wire.notification import Notification

__all__ = ["DeliveryOrder"]

_STREAM_LIMIT = 4_096
"""Streams that are known; the one that was first heard longest ago is forgotten first."""
_HELD_LIMIT = 256
"""Notifications that wait in all; the stream that has waited longest gives way."""
_NEVER = float("inf")

Key = tuple[str, str, bool]
"""Publisher, topic, and whether its publications are durable."""


class _Held(msgspec.Struct, frozen=True):
    notification: Notification
    deadline: float


class _Stream(msgspec.Struct):
    epoch: int
    sequence: int
    """Of the last notification that was delivered and not late."""
    held: list[_Held] = msgspec.field(default_factory=list)
    """What waits, in the order of publication."""


class DeliveryOrder:
    """Delivers notifications, or holds them until those before have come.

    Parameters
    ----------
    wait_s
        How long a notification waits at most; 0: none waits.
    deliver
        Takes what the application is to get.
    """

    def __init__(self, wait_s: float, deliver: Callable[[Notification], None]) -> None:
        self._wait_s, self._deliver = wait_s, deliver
        self._streams: dict[Key, _Stream] = {}
        self._waiting: dict[Key, _Stream] = {}
        """Those of them that hold something, by how long they have."""
        self._held = 0
        self.due = _NEVER
        """When `expire` has something to do."""

    def put(self, one: Notification, now: float) -> None:
        """Take a notification that was not delivered before."""
        key = (one.publisher, one.topic, one.durable)
        stream = self._streams.get(key)
        if stream is None:  # whether something before was meant for this client, nobody knows
            self._streams[key] = _Stream(one.epoch, one.sequence)
            self._deliver(one)
            if len(self._streams) > _STREAM_LIMIT:
                self._forget(next(iter(self._streams)))
        elif (
            one.previous <= stream.sequence <= one.sequence
            and one.epoch == stream.epoch
            and not stream.held
        ):
            stream.sequence = one.sequence
            self._deliver(one)
        elif _number(one) < (stream.epoch, stream.sequence):
            self._deliver(msgspec.structs.replace(one, is_late=True))
        else:
            self._hold(key, stream, _Held(one, now + self._wait_s))

    def expire(self, now: float) -> None:
        """Deliver what has waited long enough, with all before it."""
        for key, stream in list(self._waiting.items()):
            ended = [place for place, one in enumerate(stream.held) if one.deadline <= now]
            if ended:
                self._release(key, stream, ended[-1] + 1)
        self._set_due()

    def release_all(self) -> None:
        """Deliver everything now."""
        for key, stream in list(self._waiting.items()):
            self._release(key, stream, len(stream.held))
        self._set_due()

    def forget(self, pattern: str) -> None:
        """Expect nothing more of topics: the client may miss some of them from now on."""
        for key in [one for one in self._streams if matches(pattern, one[1])]:
            self._forget(key)
        self._set_due()

    def _forget(self, key: Key) -> None:
        stream = self._streams.pop(key)
        self._release(key, stream, len(stream.held))

    def _hold(self, key: Key, stream: _Stream, one: _Held) -> None:
        insort(stream.held, one, key=lambda held: (*_number(held.notification), held.deadline))
        self._held += 1
        self._waiting[key] = stream
        self._release(key, stream, 0 if self._wait_s else len(stream.held))
        if self._held > _HELD_LIMIT:
            oldest, crowded = next(iter(self._waiting.items()))
            self._release(oldest, crowded, len(crowded.held))
        self._set_due()

    def _release(self, key: Key, stream: _Stream, count: int) -> None:
        """Deliver the first `count` that wait, and those after them that wait for no others."""
        held = stream.held
        while count < len(held) and _is_next(stream, held, count):
            count += 1
        for one in held[:count]:
            stream.epoch, stream.sequence = _number(one.notification)
            self._deliver(one.notification)
        del held[:count]
        self._held -= count
        if not held:
            self._waiting.pop(key, None)

    def _set_due(self) -> None:
        self.due = min(
            (one.deadline for stream in self._waiting.values() for one in stream.held),
            default=_NEVER,
        )


def _number(one: Notification) -> tuple[int, int]:
    return one.epoch, one.sequence


def _is_next(stream: _Stream, held: list[_Held], place: int) -> bool:
    """Tell whether nothing is missing before what waits at a place, once those before are gone."""
    one = held[place].notification
    last = _number(held[place - 1].notification) if place else (stream.epoch, stream.sequence)
    return not one.previous or (one.epoch, one.previous) <= last

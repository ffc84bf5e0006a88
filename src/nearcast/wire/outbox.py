"""Durable publications at the client: kept and repeated until they are acknowledged.

Each topic has a sequence of its own. The brokers of two topics may be on different servers, and
each must see that nothing is missing (promise P3) without asking the other; and a busy topic does
not hold up the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.wire.backoff import next_wait_s
from nearcast.wire.codec import encode_publish_head, encode_publish_tail, join_publish
from nearcast.wire.epochs import Epochs
from nearcast.wire.limits import check_payload, content_bytes
from nearcast.wire.round_trip import RoundTrip
from nearcast.wire.settings import WireSettings

__all__ = ["Outbox"]

_AT_ONCE = float("-inf")
_NEVER = float("inf")
_LONGEST_PAUSE_S = 60.0
"""A server that asks for more is asked again after it: one that lies, or has long recovered, would
keep a client silent for weeks."""


@dataclass(slots=True)
class _Pending:
    head: bytes
    """The publication, encoded but for what may change until it is sent again; empty: given up."""
    due: float = _NEVER
    sent_at: float = _AT_ONCE
    wait_s: float = 0.0
    times_sent: int = 0


@dataclass(slots=True)
class _Stream:
    """One topic; its first unacknowledged publications, up to a window, are in flight."""

    oldest: int = 1
    """The lowest sequence that is not acknowledged; all from here on are pending."""
    next_sequence: int = 1
    unsent: int = 1
    """The lowest sequence that has not been sent in this session."""
    pending: dict[int, _Pending] = field(default_factory=dict)
    paused_until: float = _AT_ONCE
    repeat_due: float = _NEVER
    """Nothing has to be repeated before."""
    urgent_through: int = 0
    """The last sequence of an urgent publication: what is before it has to arrive first."""
    window: float = 1.0
    """How many may be in flight: half after the server was busy, one more when all are through."""
    busy_wait_s: float = 0.0
    """How long the server has had this topic wait since it last acknowledged something."""


class Outbox:
    """Unacknowledged publications of a client; they outlive its sessions."""

    def __init__(self, settings: WireSettings, epochs: Epochs, publisher: str = "") -> None:
        self._settings, self._epochs, self._publisher = settings, epochs, publisher
        self._streams: dict[str, _Stream] = {}
        self._active: dict[str, _Stream] = {}
        """The streams with unacknowledged publications."""
        self._fresh: dict[str, _Stream] = {}
        """Those of them that may have something to send for the first time."""
        self._repeat_due = _NEVER
        """No stream has something to repeat, or its pause ends, before."""
        self._size = 0
        self._paused_until = _AT_ONCE
        self.urgent_frames: list[bytes] = []
        """What `frames` found to be sent in datagrams that are marked as urgent."""
        self.round_trip = RoundTrip(settings)

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        topic: str,
        payload: bytes,
        position: tuple[float, float] | None,
        published_us: int,
        envelope: bytes = b"",
        *,
        urgent: bool = False,
    ) -> int:
        """Keep a publication; return its sequence. WireError when it is too large."""
        stream = self._streams.get(topic) or _Stream(window=self._settings.publish_window)
        sequence = stream.next_sequence
        head = encode_publish_head(
            topic, sequence, payload, position, published_us, durable=True, envelope=envelope
        )
        size = content_bytes(payload, envelope)
        check_payload(topic, size, self._publisher, self._settings.datagram_limit)
        stream.next_sequence += 1
        if urgent:
            stream.urgent_through = sequence
        stream.pending[sequence] = _Pending(head)
        self._streams[topic] = self._active[topic] = self._fresh[topic] = stream
        self._size += 1
        return sequence

    @property
    def has_fresh(self) -> bool:
        """Whether something may be to be sent for the first time."""
        return bool(self._fresh)

    def frames(self, now: float) -> list[bytes]:
        """Return the frames to send now, for the first time or again."""
        frames: list[bytes] = []
        if now < self._paused_until:
            return frames
        streams = self._fresh
        if now >= self._repeat_due:
            streams, self._repeat_due = self._active, _NEVER
        for topic, stream in streams.items():
            due = stream.paused_until
            if due <= now:
                is_urgent = stream.urgent_through >= stream.oldest
                some = self.urgent_frames if is_urgent else frames
                self._send(stream, now, self._epochs.of(topic), some)
                due = stream.repeat_due
            self._repeat_due = min(self._repeat_due, due)
        self._fresh.clear()
        return frames

    def _send(self, stream: _Stream, now: float, epoch: int, frames: list[bytes]) -> None:
        tail = encode_publish_tail(epoch, stream.oldest)
        if stream.repeat_due <= now:
            stream.repeat_due = _NEVER
            for sequence in range(stream.oldest, stream.unsent):
                item = stream.pending[sequence]
                if item.due <= now:
                    if item.head:
                        frames.append(join_publish(item.head, tail))
                    wait_s = next_wait_s(item.wait_s, self._settings.longest_retry_s)
                    self._note_sent(item, now, wait_s)
                stream.repeat_due = min(stream.repeat_due, item.due)
        end = min(stream.next_sequence, max(stream.unsent, stream.oldest + int(stream.window)))
        for sequence in range(stream.unsent, end):
            item = stream.pending[sequence]
            if item.head:
                frames.append(join_publish(item.head, tail))
            self._note_sent(item, now, self.round_trip.wait_s)
            stream.repeat_due = min(stream.repeat_due, item.due)
        stream.unsent = end

    def acknowledge(self, topic: str, epoch: int, up_to: int, now: float) -> bool:
        """Forget what is safe; tell whether that was new."""
        stream = self._active.get(topic)
        if stream is None or up_to < stream.oldest or epoch != self._epochs.of(topic):
            return False
        end = min(up_to + 1, stream.next_sequence)
        last = stream.pending[end - 1]
        if last.times_sent == 1:
            self.round_trip.learn(now - last.sent_at)
        grown = stream.window + (end - stream.oldest) / stream.window
        stream.window = min(grown, self._settings.publish_window)
        stream.busy_wait_s = 0.0
        self._forget(topic, stream, end)
        return True

    def give_up(self, topic: str, sequence: int) -> bool:
        """Leave out a publication that the server will never take; tell whether it waited."""
        stream = self._active.get(topic)
        item = stream.pending.get(sequence) if stream is not None else None
        if stream is None or item is None or not item.head:
            return False
        # the next publication names a higher `oldest`, and the broker goes on from there
        item.head = b""
        self._forget(topic, stream, stream.oldest)
        return True

    def _forget(self, topic: str, stream: _Stream, end: int) -> None:
        """Forget publications before `end`, and those that were given up right after."""
        for sequence in range(stream.oldest, end):
            del stream.pending[sequence]
        while end in stream.pending and not stream.pending[end].head:
            del stream.pending[end]
            end += 1
        self._size -= end - stream.oldest
        stream.oldest, stream.unsent = end, max(stream.unsent, end)
        if stream.pending:
            self._fresh[topic] = stream  # the window moved on
        else:
            stream.repeat_due = _NEVER
            del self._active[topic]
            self._fresh.pop(topic, None)

    def send_again(self, topic: str, epoch: int, expected: int, missing: int, now: float) -> None:
        """Send missing publications at once, unless they were just sent."""
        stream = self._active.get(topic)
        if stream is None or epoch != self._epochs.of(topic):
            return
        just_now_s = (self.round_trip.smoothed_s or self._settings.first_retry_s) / 2
        last = expected + min(missing, self._settings.publish_window)
        for sequence in range(max(expected, stream.oldest), min(last, stream.unsent)):
            item = stream.pending[sequence]
            if now - item.sent_at >= just_now_s:
                item.due = stream.repeat_due = self._repeat_due = _AT_ONCE

    def pause(self, topic: str, now: float, wait_s: float, part: float) -> None:
        """Send nothing to a topic (empty: to any) for a while, then what was in flight, and less.

        Each time that the server is busy again before it has acknowledged anything, the topic
        waits twice as long and has half as much in flight: what all publishers send at once after
        a pause would keep a server from all work else.

        Parameters
        ----------
        part
            A random number between 0 and 1: publishers must not come back together.
        """
        wait_s = min(wait_s, _LONGEST_PAUSE_S)
        if not topic:
            self._paused_until = max(self._paused_until, now + wait_s)
        for name, stream in self._streams.items():
            if topic not in ("", name):
                continue
            if stream.paused_until <= now:  # else this says again what is known
                longest_s = max(wait_s, self._settings.longest_retry_s)
                stream.busy_wait_s = next_wait_s(stream.busy_wait_s, longest_s, wait_s)
                stream.paused_until = now + max(wait_s, stream.busy_wait_s * (0.5 + part))
                stream.window = max(1.0, stream.window / 2)
            stream.unsent = stream.oldest
            self._repeat_due = min(self._repeat_due, stream.paused_until)

    def move(self, topic: str, other: Outbox) -> None:
        """Hand a topic over to another outbox, which sends all that is in flight again."""
        stream = self._streams.pop(topic, None)
        if stream is None:
            return
        self._active.pop(topic, None)
        self._fresh.pop(topic, None)
        size = len(stream.pending)
        self._size -= size
        stream.unsent, stream.paused_until, stream.repeat_due = stream.oldest, _AT_ONCE, _NEVER
        other._streams[topic] = stream
        other._size += size
        if size:
            other._active[topic] = other._fresh[topic] = stream

    def restart_topic(self, topic: str) -> None:
        """Send all of a topic that is in flight at once: its epoch is another one."""
        stream = self._active.get(topic)
        if stream is not None:
            stream.unsent = stream.oldest
            self._fresh[topic] = stream

    def restart(self) -> None:
        """Send all that is in flight at once: the session is a new one."""
        self.round_trip = RoundTrip(self._settings)
        self._paused_until = self._repeat_due = _AT_ONCE
        for stream in self._streams.values():
            stream.paused_until = _AT_ONCE
            stream.unsent = stream.oldest

    def next_due(self) -> float:
        """Return when `frames` has something again, or shortly before."""
        return max(_AT_ONCE if self._fresh else self._repeat_due, self._paused_until)

    def _note_sent(self, item: _Pending, now: float, wait_s: float) -> None:
        item.wait_s, item.sent_at, item.due = wait_s, now, now + wait_s
        item.times_sent += 1

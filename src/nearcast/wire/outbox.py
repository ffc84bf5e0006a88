"""Durable publications at the client: kept and repeated until they are acknowledged.

Each topic has a sequence of its own. The brokers of two topics may be on different servers, and
each must see that nothing is missing (promise P3) without asking the other; and a busy topic does
not hold up the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from nearcast.errors import WireError
from nearcast.wire.messages import Publish
from nearcast.wire.round_trip import RoundTrip
from nearcast.wire.settings import WireSettings

__all__ = ["Outbox"]

_AT_ONCE = float("-inf")


@dataclass(slots=True)
class _Pending:
    sequence: int
    payload: bytes
    position: tuple[float, float] | None
    published_us: int
    due: float = _AT_ONCE
    sent_at: float = _AT_ONCE
    wait_s: float = 0.0
    times_sent: int = 0


@dataclass(slots=True)
class _Lane:
    """One topic; the first publications of `pending`, up to a window, are in flight."""

    next_sequence: int = 1
    pending: dict[int, _Pending] = field(default_factory=dict)
    paused_until: float = _AT_ONCE
    next_due: float = float("inf")


class Outbox:
    """Unacknowledged publications of a client; they outlive its sessions."""

    def __init__(self, settings: WireSettings) -> None:
        self._settings = settings
        self._lanes: dict[str, _Lane] = {}
        self._size = 0
        self._paused_until = _AT_ONCE
        self.round_trip = RoundTrip(settings)

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        topic: str,
        payload: bytes,
        position: tuple[float, float] | None,
        published_us: int,
    ) -> int:
        """Keep a publication; return its sequence. WireError when too many are waiting."""
        if self._size >= self._settings.publish_limit:
            raise WireError(
                f"{self._size} publications wait for their acknowledgement; publish later"
            )
        lane = self._lanes.setdefault(topic, _Lane())
        sequence = lane.next_sequence
        lane.next_sequence += 1
        lane.pending[sequence] = _Pending(sequence, payload, position, published_us)
        if len(lane.pending) <= self._settings.publish_window:
            lane.next_due = _AT_ONCE
        self._size += 1
        return sequence

    def next_sequence(self, topic: str) -> int:
        """Return the sequence that the topic's next publication will have."""
        lane = self._lanes.get(topic)
        return lane.next_sequence if lane is not None else 1

    def due(self, now: float, epoch: int) -> Iterator[Publish]:
        """Yield what is to be sent now, for the first time or again."""
        for topic, lane in self._lanes.items():
            if self._due_of(lane) > now:
                continue
            lane.next_due = float("inf")
            oldest = next(iter(lane.pending), lane.next_sequence)
            for item in islice(lane.pending.values(), self._settings.publish_window):
                if item.due <= now:
                    self._note_sent(item, now)
                    x_km, y_km = item.position or (0.0, 0.0)
                    yield Publish(
                        topic=topic,
                        epoch=epoch,
                        sequence=item.sequence,
                        oldest=oldest,
                        durable=True,
                        payload=item.payload,
                        has_position=item.position is not None,
                        x_km=x_km,
                        y_km=y_km,
                        published_us=item.published_us,
                    )
                lane.next_due = min(lane.next_due, item.due)

    def acknowledge(self, topic: str, up_to: int, now: float) -> bool:
        """Forget what is safe; tell whether that was news."""
        lane = self._lanes.get(topic)
        if lane is None or not lane.pending or next(iter(lane.pending)) > up_to:
            return False
        last = None
        for sequence in list(lane.pending):
            if sequence > up_to:
                break
            last = lane.pending.pop(sequence)
            self._size -= 1
        if last is not None and last.times_sent == 1:
            self.round_trip.learn(now - last.sent_at)
        lane.next_due = _AT_ONCE if lane.pending else float("inf")  # the window moved on
        return True

    def send_again(self, topic: str, expected: int, missing: int, now: float) -> None:
        """Send missing publications at once, unless they were just sent."""
        lane = self._lanes.get(topic)
        if lane is None:
            return
        just_now_s = (self.round_trip.smoothed_s or self._settings.first_retry_s) / 2
        last = expected + min(missing, self._settings.publish_window)
        for sequence in range(expected, last):
            item = lane.pending.get(sequence)
            if item is not None and item.times_sent and now - item.sent_at >= just_now_s:
                item.due = lane.next_due = _AT_ONCE

    def pause(self, topic: str, until: float) -> None:
        """Send nothing to a topic (empty: to any) before a time, then all that is in flight."""
        if not topic:
            self._paused_until = until
        for name, lane in self._lanes.items():
            if topic in ("", name):
                lane.paused_until = until
                self._send_all(lane)

    def restart(self) -> None:
        """Send all that is in flight at once: the session is a new one."""
        self.round_trip = RoundTrip(self._settings)
        self._paused_until = _AT_ONCE
        for lane in self._lanes.values():
            lane.paused_until = _AT_ONCE
            self._send_all(lane)

    def next_due(self) -> float:
        """Return when `due` yields something again."""
        return min(map(self._due_of, self._lanes.values()), default=float("inf"))

    def _due_of(self, lane: _Lane) -> float:
        return max(lane.next_due, lane.paused_until, self._paused_until)

    @staticmethod
    def _send_all(lane: _Lane) -> None:
        for item in lane.pending.values():
            item.due, item.wait_s = _AT_ONCE, 0.0
        lane.next_due = _AT_ONCE if lane.pending else float("inf")

    def _note_sent(self, item: _Pending, now: float) -> None:
        again = item.wait_s > 0
        item.wait_s = 2 * item.wait_s if again else self.round_trip.wait_s
        item.wait_s = min(item.wait_s, self._settings.longest_retry_s)
        item.sent_at, item.due = now, now + item.wait_s
        item.times_sent += 1

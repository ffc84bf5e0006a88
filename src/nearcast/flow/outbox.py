"""An outbox: messages of a topic for one component, kept until they are done there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import msgspec

from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.ledger import covers
from nearcast.flow.messages import Part, WorkItem
from nearcast.flow.stored import OutboxRecord, decode_outbox_record
from nearcast.routing.chance import Chance
from nearcast.routing.keys import NetPath
from nearcast.spool.changes import LiveTopic, TopicChange
from nearcast.wire.backoff import next_wait_s

__all__ = ["FindTarget", "Outbox", "Parcel"]

_encode = msgspec.msgpack.Encoder().encode
_SLOW = 8
"""How much longer a message may take while others get done: it may just wait for its turn."""

FindTarget = Callable[[NetPath, int, bool], str]
"""From net, index, and whether what is remembered was of no use, to a server; empty: unknown."""


@dataclass(slots=True)
class _Entry:
    record: OutboxRecord
    target: str = ""
    """The server that it was sent to last."""
    sent_at: float = 0.0
    redirects: int = 0
    is_astray: bool = False
    """Whether the server that it was sent to did not know who has it."""
    is_done: bool = False


@dataclass(slots=True)
class Parcel:
    """Messages of one net that go to a server together."""

    server: str
    net: NetPath
    items: list[WorkItem]
    size_bytes: int = 0


class Outbox:
    """Numbers messages, sends each where its index is processed, and repeats what is not done.

    Only the server that a message was sent to last may say something about it.

    Parameters
    ----------
    name
        Of its pseudo-topic.
    live
        What the log has of it.
    unsettled
        Hand-overs that were taken here and are not settled yet; kept by the caller.
    """

    def __init__(
        self,
        name: str,
        settings: FlowSettings,
        live: LiveTopic,
        unsettled: set[int],
        rng: Chance,
    ) -> None:
        self.name, self._settings, self._unsettled = name, settings, unsettled
        self._entries: dict[int, _Entry] = {}
        self._alike: dict[tuple[NetPath, int], list[int]] = {}
        """Numbers that are not done by net and index, rising."""
        self._waiting: dict[int, list[int]] = {}
        """Numbers by the hand-over that they wait for."""
        self._to_send: list[int] = []
        """A heap of numbers; some may be done or in flight."""
        self._in_flight: dict[int, None] = {}
        """Numbers in the order of their sending."""
        self._fresh: list[OutboxRecord] = []
        self._trimmed = 0
        self._retry_s = settings.retry_s
        self._done_at = float("-inf")
        self._has_birth = live.state is not None
        """Whether its birth is stored."""
        self.birth = int.from_bytes(live.state) if live.state else rng.getrandbits(62)
        self.last = live.end
        """The last number that was given."""
        for record in map(decode_outbox_record, live.records):
            self._enter(record)
            self.on_durable((record.number,))

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def floor(self) -> int:
        """All numbers below it are done."""
        return next(iter(self._entries), self.last + 1)

    @property
    def is_full(self) -> bool:
        """Whether its topic has to wait."""
        return len(self._entries) >= self._settings.outbox_messages

    @property
    def retry_at(self) -> float:
        """When something has to be sent again."""
        oldest = next(iter(self._in_flight), 0)
        return self._retry_at(self._entries[oldest]) if oldest else float("inf")

    # Storing

    def append(self, net: NetPath, index: int, record: bytes, waits_for: int = 0) -> int:
        """Enter a message; it is sent once `on_durable` has said that it is stored."""
        self.last += 1
        kept = OutboxRecord(self.last, net, index, record, waits_for)
        self._fresh.append(kept)
        self._enter(kept)
        return self.last

    def has_change(self, trims: int) -> bool:
        """Tell whether there are messages to store, or `trims` to discard that are done."""
        return bool(self._fresh) or self._trimmed >= trims

    def take_change(self) -> tuple[TopicChange, list[int]]:
        """Return what is to be stored now, and the numbers that may be sent then."""
        fresh, self._fresh, self._trimmed = self._fresh, [], 0
        records = tuple(map(_encode, fresh))
        state = None if self._has_birth else self.birth.to_bytes(8)
        self._has_birth = True
        change = TopicChange(self.name, records, len(self._entries), state=state, end=self.last)
        return change, [one.number for one in fresh]

    def on_durable(self, numbers: Iterable[int]) -> None:
        """Let stored messages be sent, unless they wait for a hand-over."""
        for number in numbers:
            entry = self._entries.get(number)
            if entry is None:
                continue
            waits_for = entry.record.waits_for
            if waits_for in self._unsettled:
                self._waiting.setdefault(waits_for, []).append(number)
            else:
                heappush(self._to_send, number)

    def on_settled(self, hand_over: int) -> None:
        """Let messages be sent that waited for a hand-over, which is no longer unsettled."""
        self.on_durable(self._waiting.pop(hand_over, ()))

    # Sending

    def send(self, now: float, find: FindTarget) -> list[Parcel]:
        """Return what goes where now; what has no target waits for the next retry."""
        parcels: list[Parcel] = []
        filling: dict[tuple[str, NetPath], Parcel] = {}
        while self._to_send and len(self._in_flight) < self._settings.in_flight:
            entry = self._entries.get(heappop(self._to_send))
            if entry is None or entry.is_done or entry.record.number in self._in_flight:
                continue
            record = entry.record
            entry.target = find(record.net, record.index, entry.is_astray)
            entry.sent_at = now
            self._in_flight[record.number] = None
            if not entry.target:
                continue
            key = entry.target, record.net
            parcel = filling.get(key)
            if parcel is None or not self._has_room(parcel, record):
                parcel = filling[key] = Parcel(entry.target, record.net, [])
                parcels.append(parcel)
            item = WorkItem(record.number, self._before(record), record.index, record.record)
            parcel.items.append(item)
            parcel.size_bytes += len(record.record)
        return parcels

    def on_done(self, server: str, numbers: Iterable[int], now: float) -> int:
        """Drop what a server has done; return how many that were."""
        count = 0
        for number in numbers:
            entry = self._entries.get(number)
            if entry is None or entry.target != server or number not in self._in_flight:
                continue
            entry.is_done = True
            del self._in_flight[number]
            key = entry.record.net, entry.record.index
            alike = self._alike[key]
            del alike[bisect_left(alike, number)]
            if not alike:
                del self._alike[key]
            count += 1
        while self._entries and (first := next(iter(self._entries.items())))[1].is_done:
            del self._entries[first[0]]
            self._trimmed += 1
        if count:
            self._done_at, self._retry_s = now, self._settings.retry_s
        return count

    def on_moved(self, server: str, part: Part, is_known: bool) -> bool:
        """Send again what a server did not process of a part; tell whether there was anything."""
        moved = [
            entry
            for entry in self._in_flight_entries()
            if entry.target == server and covers(part, entry.record.net, entry.record.index)
        ]
        for entry in moved:
            entry.redirects += 1
            entry.is_astray = not is_known
            if entry.redirects <= self._settings.redirects:
                self._again(entry)
        return bool(moved)

    def on_restarted(self, server: str) -> None:
        """Send again all that a server may have forgotten."""
        for entry in self._in_flight_entries():
            if entry.target == server:
                self._again(entry)

    def on_orders(self, servers: Collection[str]) -> None:
        """Send again what went to servers that are not among these."""
        for entry in self._in_flight_entries():
            if entry.target not in servers:
                self._again(entry)

    def on_timer(self, now: float) -> bool:
        """Send again what took too long, by looking it up anew; tell whether there was anything."""
        late = [entry for entry in self._in_flight_entries() if self._retry_at(entry) <= now]
        for entry in late:
            entry.redirects, entry.is_astray = 0, False
            self._again(entry)
        if late:
            self._retry_s = next_wait_s(self._retry_s, self._settings.longest_retry_s)
        return bool(late)

    def _in_flight_entries(self) -> list[_Entry]:
        return [self._entries[number] for number in self._in_flight]

    def _retry_at(self, entry: _Entry) -> float:
        patience_s = self._retry_s * (_SLOW if self._done_at > entry.sent_at else 1)
        return entry.sent_at + patience_s

    def _again(self, entry: _Entry) -> None:
        """Send a message again, and in flight after it those that its receiver takes after it."""
        number = entry.record.number
        if number not in self._in_flight:
            return
        alike = self._alike[entry.record.net, entry.record.index]
        for one in alike[bisect_left(alike, number) :]:
            if one in self._in_flight:
                del self._in_flight[one]
                heappush(self._to_send, one)

    def _enter(self, record: OutboxRecord) -> None:
        self._entries[record.number] = _Entry(record)
        self._alike.setdefault((record.net, record.index), []).append(record.number)

    def _before(self, record: OutboxRecord) -> int:
        alike = self._alike[record.net, record.index]
        at = bisect_left(alike, record.number)
        return alike[at - 1] if at else 0

    def _has_room(self, parcel: Parcel, record: OutboxRecord) -> bool:
        size_bytes = parcel.size_bytes + len(record.record)
        return len(parcel.items) < self._settings.work_items and (
            size_bytes <= self._settings.work_bytes
        )

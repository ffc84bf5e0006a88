"""Records to Kafka by way of a backlog on the disk: nothing waits in memory only.

Every record is in the backlog before it is sent, and leaves it when Kafka has acknowledged it and
all before it. While Kafka is away the backlog grows up to its limit, and drains on its return.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import ConfigError
from nearcast.links.kafka_backlog import Backlog, Entry
from nearcast.links.kafka_client import Producer, open_producer
from nearcast.links.kafka_records import Record, headers
from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["KafkaSink", "SinkCounts"]

_MOST_IN_FLIGHT = 10_000
_RETRY_S = 2.0
_POLL_S = 0.02
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_MSG", "INVALID_RECORD", "_INVALID_ARG"})
"""Errors of the record itself: another try would not help."""

OpenProducer = Callable[[KafkaSettings, Callable[[str], None]], Producer]


class SinkCounts(msgspec.Struct, array_like=True):
    """What became of the records of this process."""

    sent: int = 0
    waiting: int = 0
    """On the disk, those of earlier processes included."""
    dropped: int = 0
    """There was no room in the backlog, or Kafka will never take them."""
    errors: int = 0
    last_error: str | None = None
    """Why Kafka does not take records; None while it does."""


class _InFlight:
    __slots__ = ("entry", "error", "is_done")

    def __init__(self, entry: Entry) -> None:
        self.entry, self.is_done = entry, False
        self.error: Any = None


class KafkaSink:
    """Takes records and sends them; call `advance` often. Never waits but in `close`.

    Raises
    ------
    OSError
        When the folder of the backlog cannot be used.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        folder: Path,
        open_it: OpenProducer = open_producer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._open_it, self._clock = settings, open_it, clock
        self._backlog = Backlog(folder, settings.backlog_mb * (1 << 20))
        self._producer: Producer | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._retry_at = 0.0
        self.counts = SinkCounts(waiting=self._backlog.waiting)

    @property
    def is_busy(self) -> bool:
        """Whether something waits."""
        return self._backlog.waiting > 0

    def take(self, records: Sequence[Record]) -> None:
        """Keep records; what there is no room for is dropped and counted."""
        entries = [msgspec.msgpack.encode(record) for record in records]
        try:
            taken = self._backlog.append(entries)
        except OSError as error:
            taken = 0
            self._note(f"{error}; records are dropped")
        if taken < len(entries):
            self.counts.dropped += len(entries) - taken
        self.counts.waiting = self._backlog.waiting

    def advance(self) -> None:
        """Hear what Kafka has taken, and send more."""
        if self._producer is not None:
            self._producer.poll(0)
        self._settle()
        if self._clock() < self._retry_at or not self.is_busy:
            return
        if self._producer is None:
            try:
                self._producer = self._open_it(self._settings, self._note)
            except ConfigError as error:
                self._give_up(str(error))
                return
        for entry in self._backlog.take(_MOST_IN_FLIGHT - len(self._in_flight)):
            self._send(self._producer, entry)
        self._producer.poll(0)

    def close(self, within_s: float = 2.0) -> None:
        """Send what waits, if Kafka takes it in time; the rest stays on the disk."""
        deadline = self._clock() + within_s
        while self.is_busy and self._clock() < deadline:
            self.advance()
            if self.is_busy:
                time.sleep(_POLL_S)
        self._abandon()
        self._backlog.close()

    def _send(self, producer: Producer, entry: Entry) -> None:
        record = Record(*msgspec.msgpack.decode(entry.data))
        one = _InFlight(entry)
        self._in_flight.append(one)
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                headers=headers(record),
                on_delivery=partial(self._on_delivery, one),
            )
        except Exception as error:  # KafkaException and BufferError: this record was not taken
            one.is_done, one.error = True, error.args[0] if error.args else error

    @staticmethod
    def _on_delivery(one: _InFlight, error: Any, _message: Any) -> None:
        one.is_done, one.error = True, error

    def _settle(self) -> None:
        """Forget the oldest records, as far as Kafka has them."""
        while self._in_flight and self._in_flight[0].is_done:
            one = self._in_flight[0]
            if one.error is not None and _name(one.error) not in _TOO_LARGE:
                self._give_up(_text(one.error))
                break
            self._in_flight.popleft()
            self._backlog.done(one.entry)
            if one.error is None:
                self.counts.sent += 1
                self.counts.last_error = None
            else:
                self.counts.dropped += 1
                self._note(_text(one.error))
        self.counts.waiting = self._backlog.waiting

    def _give_up(self, reason: str) -> None:
        """Try all that is not acknowledged again, later; some may come twice, by their identity."""
        self._note(reason)
        self._abandon()
        self._backlog.rewind()
        self._retry_at = self._clock() + _RETRY_S

    def _abandon(self) -> None:
        for one in self._in_flight:
            one.is_done = True  # what is still told of them does not count
        self._in_flight.clear()
        if self._producer is not None:
            self._producer.purge()
            self._producer.poll(0)
            self._producer = None

    def _note(self, reason: str) -> None:
        self.counts.errors += 1
        self.counts.last_error = reason


def _name(error: Any) -> str:
    return str(error.name()) if hasattr(error, "name") else ""


def _text(error: Any) -> str:
    return str(error.str()) if hasattr(error, "str") else str(error)

"""Threshold: values above a limit, or far from what the topic's recent values were."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import sqrt

from nearcast.broker.notifications import Notification
from nearcast.broker.payloads import read_number, read_object, write_object
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

__all__ = ["RecentValues", "Threshold"]

_DIGITS_KEPT = 1e-6
_LARGEST = 1e150  # squares of larger values overflow


class RecentValues:
    """Mean and standard deviation of the last values, from sums that are carried along."""

    def __init__(self, count: int) -> None:
        self._values: deque[float] = deque(maxlen=count)
        self._shift = self._sum = self._squares = 0.0
        self._added = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """Add a value, unless it is beyond all measure; the oldest goes when there are enough."""
        if abs(value) > _LARGEST:
            return
        if self._added % (self._values.maxlen or 1) == 0:
            self._begin_anew(value)
        if len(self._values) == self._values.maxlen:
            before, gone = self._squares, self._values.popleft() - self._shift
            self._sum -= gone
            self._squares -= gone * gone
            if self._squares < _DIGITS_KEPT * before:  # an outlier took the others' digits along
                self._begin_anew(value)
        self._values.append(value)
        shifted = value - self._shift
        self._sum += shifted
        self._squares += shifted * shifted
        self._added += 1

    def mean_and_deviation(self) -> tuple[float, float]:
        """Return the mean and the standard deviation (of a population)."""
        count = len(self._values)
        mean = self._sum / count
        return mean + self._shift, sqrt(max(0.0, self._squares / count - mean * mean))

    def _begin_anew(self, shift: float) -> None:
        # once per window: rounding errors do not pile up, and values far from 0 keep their digits
        self._shift = shift
        self._sum = sum(value - shift for value in self._values)
        self._squares = sum((value - shift) * (value - shift) for value in self._values)


class Threshold:
    """Alerts on values above a limit, or unusual among the topic's recent ones.

    Parameters
    ----------
    limit
        Values above it are alerted; None for no limit.
    deviations
        Values further than this many standard deviations from the mean of the values before are
        alerted; None for no such test.
    recent
        How many values before count; the spool should keep as many messages.
    least
        How many values there must be before anything is called unusual.
    """

    def __init__(
        self,
        limit: float | None = None,
        deviations: float | None = None,
        recent: int = 100,
        least: int = 10,
    ) -> None:
        if (limit is None and deviations is None) or (deviations is not None and deviations <= 0):
            raise ConfigError("threshold needs a limit, or deviations > 0, or both")
        if not 2 <= least <= recent:
            raise ConfigError("threshold needs 2 <= least <= recent")
        self._limit, self._deviations, self._least = limit, deviations, least
        self._recent = RecentValues(recent)
        self._seen = 0
        self.malformed = 0
        """Messages without a value."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return an alert for each message of the batch whose value stands out."""
        for message in spool.until(spool.end - len(batch)).since(self._seen):
            value = self._read(message)
            if value is not None:
                self._recent.add(value)
        self._seen = spool.end
        for message in batch:
            value = self._read(message)
            if value is None:
                continue
            reason = self._reason(value)
            self._recent.add(value)
            if reason is not None:
                yield Notification(
                    write_object(
                        alert="threshold", client=message.publisher, value=value, reason=reason
                    ),
                    cause=message,
                )

    def _read(self, message: Publication) -> float | None:
        found = read_object(message.payload)
        value = read_number(found.get("value")) if found is not None else None
        if value is None:
            self.malformed += 1
        return value

    def _reason(self, value: float) -> str | None:
        if self._limit is not None and value > self._limit:
            return "limit"
        if self._deviations is not None and len(self._recent) >= self._least:
            mean, deviation = self._recent.mean_and_deviation()
            if abs(value - mean) > self._deviations * deviation:
                return "deviation"
        return None

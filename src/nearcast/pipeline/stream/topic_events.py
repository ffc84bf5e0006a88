"""What a stream remembers of one topic between batches: its event broker, and what it has read.

No Spark here: records in, alerts and refused records out. Equal records in equal order make the
alerts that `nearcast kafka events` and a live server make, however they are cut into batches.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nearcast.broker.processors.alerting import TopicAlerts
from nearcast.broker.processors.events import Events
from nearcast.errors import PipelineError, WireError
from nearcast.links.kafka_records import AlertRecord, PublicationRecord, read_publication
from nearcast.pipeline.stream.alert_records import KnownRecords, alerts_of

__all__ = ["Arrived", "Refused", "TopicEvents", "TopicOutput"]

_MOST_KNOWN = 50_000
_MOST_HELD = 200_000
_LONGEST_KEPT = 2_000
"""Bytes of a refused record that are kept."""


class Arrived(NamedTuple):
    """A record as it was read."""

    version: bytes | None
    identity: str
    value: bytes | None


class Refused(NamedTuple):
    """A record that does not count, and why."""

    identity: str
    reason: str
    value: bytes


@dataclass(slots=True)
class TopicOutput:
    """What came of some records of a topic."""

    alerts: list[tuple[int, AlertRecord]] = field(default_factory=list)
    """Each with its number among those of one publication."""
    refused: list[Refused] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Of ``records``, ``repeated``, ``refused``, ``late``, ``alerts``, and ``no report``: records that
    are neither a report nor a question."""


class TopicEvents:
    """The event broker of one topic, and which records it has had.

    Parameters
    ----------
    options
        Of the processor `events`.
    late_s
        0: records count in the order in which they come. Else each is held until one came that is
        so much younger, and they count in the order of their times; what is older than one that
        has counted is late, and refused.
    """

    def __init__(self, topic: str, options: Mapping[str, Any], late_s: float = 0.0) -> None:
        self._topic, self._late_us = topic, round(late_s * 1e6)
        self._alerts = TopicAlerts(Events(**options))
        self._known = KnownRecords(_MOST_KNOWN)
        self._held: list[tuple[PublicationRecord, str]] = []
        self._newest_us = self._counted_us = -(1 << 62)

    def take(self, records: Iterable[Arrived]) -> TopicOutput:
        """Return what records cause, in the order in which they are given."""
        output = TopicOutput()
        for arrived in records:
            try:
                record = read_publication(arrived.version, arrived.value)
                if record.topic is None or record.topic != self._topic:
                    raise WireError("the record's key is not its topic")
            except WireError as error:
                self._refuse(output, arrived, str(error))
                continue
            if not self._known.is_new(arrived.identity):
                output.counts["repeated"] += 1
            elif not self._late_us:
                self._count(output, record, arrived.identity)
            elif record.time_us < self._counted_us:
                output.counts["late"] += 1
                self._refuse(output, arrived, "the record is late")
            else:
                self._newest_us = max(self._newest_us, record.time_us)
                self._held.append((record, arrived.identity))
        self._release(output, self._newest_us - self._late_us)
        return output

    def end(self) -> TopicOutput:
        """Return what the records cause that are held still; nothing more is expected."""
        output = TopicOutput()
        self._release(output, self._newest_us)
        return output

    def packed(self) -> bytes:
        """Return all of it as bytes, for the checkpoint."""
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def unpacked(packed: bytes) -> TopicEvents:
        """Return what was packed; PipelineError when another nearcast did it."""
        try:
            found = pickle.loads(packed)
        except Exception as error:  # whatever another version's classes lead to
            raise PipelineError(
                f"the checkpoint is of another version of nearcast; begin with another --out: {error}"
            ) from error
        assert isinstance(found, TopicEvents)
        return found

    def _release(self, output: TopicOutput, until_us: int) -> None:
        # what came in one pass of a server has one time, and stays in the order of its log
        self._held.sort(key=lambda one: one[0].time_us)
        due = sum(record.time_us <= until_us for record, _ in self._held)
        # a clock that stands still must not fill the memory
        due = max(due, len(self._held) - _MOST_HELD)
        for record, identity in self._held[:due]:
            self._count(output, record, identity)
        del self._held[:due]

    def _count(self, output: TopicOutput, record: PublicationRecord, identity: str) -> None:
        output.counts["records"] += 1
        self._counted_us = max(self._counted_us, record.time_us)
        malformed = self._alerts.malformed
        found = alerts_of(self._alerts, record, identity)
        if self._alerts.malformed > malformed:
            output.counts["no report"] += 1
        output.counts["alerts"] += len(found)
        output.alerts += enumerate(found)

    def _refuse(self, output: TopicOutput, arrived: Arrived, reason: str) -> None:
        output.counts["refused"] += 1
        value = (arrived.value or b"")[:_LONGEST_KEPT]
        output.refused.append(Refused(arrived.identity, reason, value))

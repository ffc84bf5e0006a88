"""Records of Kafka into alerts, by the same event broker as on a live topic."""

from __future__ import annotations

import base64
import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from nearcast.broker.processors.alerting import TopicAlerts
from nearcast.broker.processors.events import Events
from nearcast.links.kafka_records import AlertRecord, PublicationRecord, Record, alert_record
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.wire.publication import Origin, Publication

__all__ = ["AlertMaker", "KnownRecords", "alerts_of"]

_TOPICS_LIMIT = 10_000
"""As many as a server manages without orders: clients bring topics into being."""


class KnownRecords:
    """The last records by their identity, so that each counts once; 8 bytes each when pickled."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._known: OrderedDict[int, None] = OrderedDict()

    def is_new(self, identity: str) -> bool:
        """Note a record; tell whether it was not known."""
        digest = blake2b(identity.encode(errors="replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number in self._known:
            return False
        self._known[number] = None
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return True

    def __getstate__(self) -> tuple[int, bytes]:
        return self._most, array("Q", self._known).tobytes()

    def __setstate__(self, state: tuple[int, bytes]) -> None:
        self._most, known = state
        self._known = OrderedDict.fromkeys(memoryview(known).cast("Q"))


class AlertMaker:
    """The event brokers of all topics that this consumer has.

    Parameters
    ----------
    options
        Of the processor `events`: ``field_km``, ``kinds``, ``congestion``.

    Raises
    ------
    ConfigError
        When an option is wrong.
    """

    def __init__(self, settings: KafkaSettings, options: Mapping[str, Any]) -> None:
        self._settings, self._options = settings, dict(options)
        Events(**self._options)  # complains now
        self._topics: OrderedDict[str, TopicAlerts] = OrderedDict()
        """The one that was used longest ago begins anew when there are too many."""

    def forget(self) -> None:
        """Begin anew: another consumer of the group has gone on meanwhile."""
        self._topics.clear()

    def take(self, record: PublicationRecord, identity: str) -> list[Record]:
        """Return the alerts that a publication causes, as records for Kafka."""
        if record.topic is None:
            return []
        topic = self._topics.pop(record.topic, None) or TopicAlerts(Events(**self._options))
        self._topics[record.topic] = topic
        if len(self._topics) > _TOPICS_LIMIT:
            self._topics.popitem(last=False)
        alerts = alerts_of(topic, record, identity)
        return [alert_record(one, part, self._settings) for part, one in enumerate(alerts)]


def alerts_of(topic: TopicAlerts, record: PublicationRecord, identity: str) -> list[AlertRecord]:
    """Return the alerts that a publication to a topic causes."""
    assert record.topic is not None
    publication = Publication(
        record.topic,
        record.client,
        record.epoch,
        record.sequence,
        record.time_us,
        record.time_us,
        math.nan if record.x_km is None else record.x_km,
        math.nan if record.y_km is None else record.y_km,
        record.data,
        Origin.DIRECT if record.durable else Origin.ONCE,
    )
    return [
        AlertRecord(
            record.topic,
            base64.b64encode(one.payload).decode(),
            record.time_us,
            identity,
            dict(one.attributes or {}),
            one.area or "",
            None if one.valid_until_s is None else int(one.valid_until_s * 1e6),
        )
        for one in topic.take(publication)
    ]

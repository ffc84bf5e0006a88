"""Event brokers in the data centre: a group of consumers that turns events into alerts.

Each member of the group has some partitions, and so some topics as a whole. One that takes over
partitions reads the last minutes of them again in silence, so that its bins are filled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nearcast.errors import ConfigError, WireError
from nearcast.links.kafka_client import (
    Producer,
    answering,
    check_topics,
    commit,
    consume_soon,
    open_consumer,
    open_producer,
)
from nearcast.links.kafka_records import headers, read_identity, read_publication
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_records import AlertMaker, KnownRecords

__all__ = ["EventService", "ServiceCounts", "header"]

_log = logging.getLogger(__name__)
_AT_ONCE = 500
_WAIT_S = 0.02
_ANSWER_S = 10.0
_FLUSH_S = 0.5
"""A signal is heard in between only."""


class ServiceCounts:
    """What became of the records."""

    def __init__(self) -> None:
        self.records = 0
        self.repeated = 0
        self.malformed = 0
        """Records that are not of this nearcast's form; passed over."""
        self.alerts = 0


class EventService:
    """One consumer of the group; `run` it.

    Parameters
    ----------
    group
        Kafka's name of the group; its members share the work.
    options
        Of the processor `events`.
    warm_s
        How much is read again when partitions are taken over.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        options: Mapping[str, Any],
        *,
        group: str = "nearcast-events",
        warm_s: float = 300.0,
    ) -> None:
        self._settings, self._group, self._warm_s = settings, group, warm_s
        self._maker, self._known = AlertMaker(settings, options), KnownRecords()
        self._silent_until: dict[int, int] = {}
        """Partition -> offset; what is before was judged by whoever had it then."""
        self.counts = ServiceCounts()
        self.is_assigned = threading.Event()

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until `stop` says so.

        Raises
        ------
        ConfigError
            When Kafka does not answer, lacks a topic, or refuses.
        """
        topics = (self._settings.topic("events"), self._settings.topic("alerts"))
        check_topics(self._settings, topics)
        consumer = open_consumer(self._settings, self._group)

        def on_error(said: str) -> None:
            _log.warning("kafka: %s", said)

        producer = open_producer(self._settings, on_error)
        failed: list[str] = []
        try:
            consumer.subscribe([topics[0]], on_assign=self._on_assign)
            while not stop():
                batch = consume_soon(consumer, _AT_ONCE, _WAIT_S)
                for message in batch:
                    for alert in self._take(message):
                        producer.produce(
                            alert.topic,
                            alert.value,
                            alert.key,
                            headers=headers(alert),
                            on_delivery=lambda error, _: (
                                failed.append(str(error)) if error is not None else None
                            ),
                        )
                        self.counts.alerts += 1
                if batch and _all_sent(producer, stop):
                    if failed:
                        raise ConfigError(f"Kafka does not take alerts: {failed[0]}")
                    commit(consumer, batch, on_error)
        finally:
            consumer.close()

    def _take(self, message: Any) -> Sequence[Any]:
        if message.error() is not None:
            raise ConfigError(f"Kafka: {message.error().str()}")
        try:
            record = read_publication(header(message, "v"), message.value())
            identity = read_identity(header(message, "id"))
        except WireError as error:
            self.counts.malformed += 1
            _log.warning("partition %d, %s", message.partition(), error)
            return ()
        if not self._known.is_new(identity):
            self.counts.repeated += 1
            return ()
        self.counts.records += 1
        alerts = self._maker.take(record, identity)
        is_silent = message.offset() < self._silent_until.get(message.partition(), 0)
        return () if is_silent else alerts

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        """Go back a little, to fill the bins."""
        self._maker.forget()
        self._known = KnownRecords()
        self._silent_until.clear()
        since_ms = int((time.time() - self._warm_s) * 1e3)
        with answering(self._settings):
            committed = consumer.committed(partitions, timeout=_ANSWER_S)
            for partition in partitions:
                partition.offset = since_ms
            early_ones = consumer.offsets_for_times(partitions, _ANSWER_S)
        found = {one.partition: one.offset for one in early_ones}
        for one in committed:
            if one.offset >= 0:
                self._silent_until[one.partition] = one.offset
                early = found.get(one.partition, -1)
                one.offset = one.offset if early < 0 else min(one.offset, early)
        consumer.assign(committed)
        self.is_assigned.set()


def _all_sent(producer: Producer, stop: Callable[[], bool]) -> bool:
    """Wait until Kafka has all alerts, however long it is away; False: it was time to stop before."""
    while producer.flush(_FLUSH_S):
        if stop():
            return False
    return True


def header(message: Any, name: str) -> bytes | None:
    """Return a header of a message, None if it has none of that name."""
    found = dict(message.headers() or ()).get(name)
    return found if isinstance(found, bytes) else None

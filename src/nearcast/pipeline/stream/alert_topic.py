"""Alerts into Kafka, those of each batch once: a batch that is repeated adds only what is missing.

Before a batch is sent, the ends of the topic's partitions are noted. After a kill the repeated batch
finds the note, reads what came since, and sends the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from nearcast.errors import ConfigError
from nearcast.links.kafka_client import ends_of_topic, open_consumer, open_producer
from nearcast.links.kafka_records import Record, headers
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.stream_folder import disk_errors, replace_file

__all__ = ["AlertTopic"]

_ANSWER_S = 30.0


class AlertTopic:
    """The topic of alerts, as one stream writes it.

    Parameters
    ----------
    note
        File that says where the topic ended before the last batch.
    """

    def __init__(self, settings: KafkaSettings, note: Path) -> None:
        self._settings, self._note = settings, note
        self._topic = settings.topic("alerts")
        self._ends: dict[int, int] | None = None
        """Of partitions, as far as is known: all of this stream's own alerts are before them."""
        self._producer = open_producer(settings, lambda _: None, message_timeout_s=_ANSWER_S)

    def write(self, batch: int, records: Sequence[Record]) -> int:
        """Send the alerts of a batch that are not there; return how many were.

        Raises
        ------
        ConfigError
            When Kafka does not take them.
        """
        if not records:
            return 0
        there, ends = self._there(batch)
        failed: list[str] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error.str())
            else:
                number = message.partition()
                ends[number] = max(ends.get(number, 0), message.offset() + 1)

        for record in records:
            if record.identity not in there:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    headers=headers(record),
                    on_delivery=on_delivery,
                )
                self._producer.poll(0)
        self._producer.flush()
        if failed:
            raise ConfigError(f"Kafka does not take alerts to {self._topic!r}: {failed[0]}")
        self._ends = ends
        return sum(record.identity in there for record in records)

    def _there(self, batch: int) -> tuple[set[str], dict[int, int]]:
        """Return what an earlier try of the batch has sent, and where the topic ends at least."""
        noted = self._noted()
        if noted is not None and noted["batch"] == batch:
            since = {int(number): end for number, end in noted["ends"].items()}
            return self._identities(since), since
        ends = ends_of_topic(self._settings, self._topic) if self._ends is None else self._ends
        with disk_errors(self._note):
            replace_file(self._note, json.dumps({"batch": batch, "ends": ends}).encode())
        return set(), dict(ends)

    def _noted(self) -> dict[str, Any] | None:
        with disk_errors(self._note):
            if not self._note.exists():
                return None
            found = json.loads(self._note.read_text())
        return found if isinstance(found, dict) else None

    def _identities(self, since: dict[int, int]) -> set[str]:
        from confluent_kafka import TopicPartition

        left = {
            number: end
            for number, end in ends_of_topic(self._settings, self._topic).items()
            if end > since.get(number, 0)
        }
        found: set[str] = set()
        more = {"enable.partition.eof": True}  # offsets of transactions are not records
        consumer = open_consumer(self._settings, f"nearcast-{uuid4().hex}", **more)
        try:
            consumer.assign(
                [TopicPartition(self._topic, number, since.get(number, 0)) for number in left]
            )
            while left:
                message = consumer.poll(_ANSWER_S)
                if message is None:
                    raise ConfigError(f"Kafka does not answer: topic {self._topic!r}")
                if (error := message.error()) is not None:
                    if error.name() != "_PARTITION_EOF":
                        raise ConfigError(f"Kafka: {error.str()}")
                    left.pop(message.partition(), None)
                    continue
                identity = dict(message.headers() or ()).get("id")
                if isinstance(identity, bytes):
                    found.add(identity.decode(errors="replace"))
                if message.offset() + 1 >= left.get(message.partition(), 0):
                    left.pop(message.partition(), None)
        finally:
            consumer.close()
        return found

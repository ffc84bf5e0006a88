"""Kafka and a plain Python consumer: each event comes back as an alert, as it is.

``python -m nearcast.experiments.stream.echo_worker BOOTSTRAP PREFIX``. What an event broker would add
is left out: this is the way through Kafka alone.
"""

from __future__ import annotations

import sys
from uuid import uuid4

from nearcast.links.kafka_client import consume_soon, open_consumer, open_producer
from nearcast.links.kafka_records import AlertRecord, alert_record, headers, read_publication
from nearcast.links.kafka_settings import KafkaSettings

_AT_ONCE = 500
_WAIT_S = 1.0


def main(bootstrap: str, prefix: str) -> None:
    """Run until killed."""
    settings = KafkaSettings(bootstrap, prefix)
    consumer = open_consumer(settings, uuid4().hex)
    producer = open_producer(settings, lambda _: None)
    consumer.subscribe([settings.topic("events")])
    while True:
        for message in consume_soon(consumer, _AT_ONCE, _WAIT_S):
            said = dict(message.headers() or ())
            one = read_publication(said.get("v"), message.value())
            cause = said["id"].decode()
            echo = AlertRecord(one.topic or "", one.payload, one.time_us, cause)
            record = alert_record(echo, 0, settings)
            producer.produce(
                record.topic,
                record.value,
                record.key,
                headers=headers(record),
                on_delivery=lambda error, _: sys.exit(str(error)) if error else None,
            )
        producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

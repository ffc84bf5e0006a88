"""Events as records of Kafka, made up, and the alerts that the live event broker makes of them."""

from __future__ import annotations

import json
from random import Random

from nearcast.links.kafka_records import Record, publication_record, read_publication
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_records import AlertMaker
from nearcast.server.log_rows import PublicationRow

__all__ = ["FIELD", "START_US", "expected_alerts", "random_events", "to_records"]

FIELD = {"field_km": [0, 0, 20, 20]}
START_US = 1_700_000_000_000_000
_KINDS = ("obstacle", "collision", "blocked", "moving_object")


def random_events(count: int, *, topics: int = 3, seed: int = 1) -> list[PublicationRow]:
    """Return what 20 vehicles report, a message every 50 ms."""
    rng, rows = Random(seed), []
    for number in range(count):
        who = rng.randrange(20)
        said: dict[str, object] = {"position": [5 + 0.01 * who, 5], "speed": 10}
        chance = rng.random()
        if chance < 0.3:
            said["event"] = "emergency" if chance < 0.05 else rng.choice(_KINDS)
        rows.append(
            PublicationRow(
                topic=f"road/{rng.randrange(topics)}",
                client=f"v{who}",
                time_us=START_US + number * 50_000,
                x_km=5.0,
                y_km=5.0,
                size=0,
                action="publish",
                sequence=number,
                epoch=1,
                durable=True,
                server=f"e{1 + rng.randrange(3)}",
                payload=json.dumps(said).encode(),
            )
        )
    return rows


def to_records(rows: list[PublicationRow], settings: KafkaSettings) -> list[Record]:
    return [publication_record(row, settings) for row in rows]


def expected_alerts(rows: list[PublicationRow], settings: KafkaSettings) -> dict[str, bytes]:
    """Return what the pure module makes of events in plain Python: identity -> value."""
    maker, found = AlertMaker(settings, FIELD), {}
    for record in to_records(rows, settings):
        for alert in maker.take(read_publication(b"1", record.value), record.identity):
            assert alert.identity not in found
            found[alert.identity] = alert.value
    return found

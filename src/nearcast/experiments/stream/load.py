"""Events of vehicles into Kafka at a steady rate, and the alerts that they must become."""

from __future__ import annotations

import json
import threading
import time
from random import Random

from nearcast.links.kafka_client import open_producer
from nearcast.links.kafka_records import Record, headers, publication_record, read_publication
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_records import AlertMaker
from nearcast.server.log_rows import PublicationRow

__all__ = ["OPTIONS", "EventLoad", "expected_alerts", "expected_emergencies"]

OPTIONS = {"field_km": [0, 0, 20, 20], "congestion": False}
_VEHICLES = 1_000
_TOPICS = 8
_EMERGENCIES = 0.05
_OBSTACLES = 0.1
_STEP_S = 0.01


class EventLoad:
    """A thread that sends events until it is told to stop; use it with ``with``.

    Vehicles stand in the field, each reports to its own topic; a twentieth of the messages is an
    emergency, which is an alert at once, a tenth an obstacle, which needs two reporters.
    """

    def __init__(self, settings: KafkaSettings, rate_hz: float, seed: int) -> None:
        self._settings, self._rng = settings, Random(seed)
        self.rate_hz = rate_hz
        """May be changed at any time."""
        self._producer = open_producer(settings, lambda _: None)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.records: list[Record] = []
        """All that was sent, in order."""
        self.failed: list[str] = []

    def __enter__(self) -> EventLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait until Kafka has all."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def _send(self) -> None:
        before_s, owed = time.monotonic(), 0.0
        while not self._stop.wait(_STEP_S):
            now_s = time.monotonic()
            owed += (now_s - before_s) * self.rate_hz
            before_s = now_s
            for _ in range(int(owed)):
                self._send_one(len(self.records))
            owed -= int(owed)
            self._producer.poll(0)

    def _send_one(self, number: int) -> None:
        who, chance = self._rng.randrange(_VEHICLES), self._rng.random()
        place = [2 + 0.4 * (who % 40), 2 + 0.6 * (who // 40)]
        said: dict[str, object] = {"position": place, "speed": 0}
        if chance < _EMERGENCIES + _OBSTACLES:
            said["event"] = "emergency" if chance < _EMERGENCIES else "obstacle"
        row = PublicationRow(
            topic=f"road/{who % _TOPICS}",
            client=f"v{who}",
            time_us=time.time_ns() // 1000,
            x_km=place[0],
            y_km=place[1],
            size=0,
            action="publish",
            sequence=number,
            epoch=1,
            durable=True,
            server="e1",
            payload=json.dumps(said).encode(),
        )
        record = publication_record(row, self._settings)
        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            headers=headers(record),
            on_delivery=lambda error, _: self.failed.append(error.str()) if error else None,
        )
        self.records.append(record)


def expected_alerts(records: list[Record], settings: KafkaSettings) -> set[str]:
    """Return the identities of the alerts that the event broker makes of records, in plain Python."""
    maker = AlertMaker(settings, OPTIONS)
    return {
        alert.identity
        for record in records
        for alert in maker.take(read_publication(b"1", record.value), record.identity)
    }


def expected_emergencies(records: list[Record]) -> set[str]:
    """Return the identities of the alerts of a query that passes emergencies on, and no more."""
    found = set()
    for record in records:
        said = json.loads(read_publication(b"1", record.value).data)
        if said.get("event") == "emergency":
            found.add(f"0/{record.identity}")
    return found

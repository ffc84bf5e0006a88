"""Event brokers as a group of consumers: members come, go and die, and so does Kafka."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from cli.conftest import Run, run  # noqa: F401
from cli.test_standalone import PORTS, enrol, serving
from nearcast.experiments.stream.alert_watch import AlertWatch
from nearcast.experiments.stream.load import OPTIONS, EventLoad, expected_alerts
from nearcast.experiments.stream.subjects import CONSUMER, Subject
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_records import PublicationRecord
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.site.kafka_bridge import AlertBridge
from nearcast.site.kafka_events import EventService
from nearcast.testing.local_kafka import LocalKafka
from small_site.making import until
from small_site.services import working

RATE_HZ = 100


@pytest.fixture
def settings(kafka: LocalKafka) -> KafkaSettings:
    """Topics of the test's own, in four partitions."""
    settings = KafkaSettings(kafka.bootstrap, f"g{uuid4().hex[:8]}", events=("road/#",))
    create_topics(settings, 4)
    return settings


def test_members_share_topics_and_no_alert_is_lost_when_they_come_go_and_die(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    group = f"{settings.prefix}.{CONSUMER}"  # as the subject's
    first, second = (EventService(settings, OPTIONS, group=group) for _ in range(2))
    with (
        AlertWatch(settings) as watch,
        EventLoad(settings, RATE_HZ, 1) as load,
        Subject(CONSUMER, settings, tmp_path) as doomed,
    ):
        until(lambda: len(watch.delays) > 5, "alerts", 60)
        with working(first):
            until(lambda: first.counts.records > 50, "the first shares", 60)
            with working(second):
                until(lambda: second.counts.records > 50, "the second shares", 60)
                doomed.kill()
                killed_at = len(load.records)
                until(lambda: len(load.records) > killed_at + 300, "more events")
                load.stop()
                expected = expected_alerts(load.records, settings)
                until(lambda: expected <= watch.seen.keys(), "all alerts", 120)
    # what a member had told and not committed when it died may come again, with its identity
    assert watch.seen.keys() == expected


def test_event_brokers_and_the_bridge_go_on_when_kafka_dies_and_returns(
    kafka: LocalKafka,
    settings: KafkaSettings,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    # who is held up for so long has lost its place in the group
    soon = msgspec.structs.replace(
        settings, options={"max.poll.interval.ms": "6000", "session.timeout.ms": "6000"}
    )
    service = EventService(soon, OPTIONS, group=uuid4().hex)
    data = tmp_path / "broker"
    with serving(data, *PORTS):
        own = enrol(run, data, "service")
        bridge = AlertBridge(soon, own, group=uuid4().hex)
        with (
            AlertWatch(settings) as watch,
            EventLoad(settings, RATE_HZ, 1) as load,
            working(service),
            working(bridge),
        ):
            until(lambda: bridge.counts.told > 20, "alerts are told")
            kafka.kill()
            try:
                before = len(load.records)
                until(lambda: len(load.records) > before + 300, "events wait")
            finally:
                kafka.start()
            load.stop()
            expected = expected_alerts(load.records, settings)
            until(lambda: bridge.counts.told >= len(expected), "all alerts are told", 120)
            until(lambda: len(watch.seen) >= len(expected), "all alerts are in Kafka")
    assert watch.seen.keys() == expected
    assert bridge.counts.told == len(expected)
    assert (bridge.counts.expired, bridge.counts.malformed, bridge.counts.refused) == (0, 0, 0)


class StuckProducer:
    """Kafka takes nothing."""

    def __init__(self) -> None:
        self.flushes = 0

    def produce(self, *_: Any, **__: Any) -> None:
        pass

    def flush(self, timeout: float) -> int:
        assert timeout < 10
        self.flushes += 1
        return 1


class OneEvent:
    """A consumer that has an emergency."""

    def __init__(self) -> None:
        self.is_closed = False

    def subscribe(self, *_: Any, **__: Any) -> None:
        pass

    def consume(self, *_: Any) -> list[Any]:
        return [EMERGENCY]

    def close(self) -> None:
        self.is_closed = True


class Emergency:
    """A message of Kafka."""

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        said = json.dumps({"position": [5, 5], "speed": 0, "event": "emergency"})
        return msgspec.json.encode(
            PublicationRecord(
                *("road/n", "car", 1_700_000_000_000_000, 5.0, 5.0, "publish", 1, 1, True, "e1"),
                base64.b64encode(said.encode()).decode(),
            )
        )

    def headers(self) -> list[tuple[str, bytes]]:
        return [("v", b"1"), ("id", b"car/1/d/1/road/n")]

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


EMERGENCY = Emergency()


def test_an_event_broker_ends_when_told_though_kafka_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, consumer = StuckProducer(), OneEvent()
    at = "nearcast.site.kafka_events"
    monkeypatch.setattr(f"{at}.check_topics", lambda *_: None)
    monkeypatch.setattr(f"{at}.open_consumer", lambda *_: consumer)
    monkeypatch.setattr(f"{at}.open_producer", lambda *_: producer)
    service = EventService(KafkaSettings("none:1"), OPTIONS)
    service.run(lambda: producer.flushes >= 3)  # nothing is committed
    assert (service.counts.alerts, consumer.is_closed) == (1, True)

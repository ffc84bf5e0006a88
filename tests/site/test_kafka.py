"""A server, a real Kafka and a site's subscribers: what is acknowledged arrives there, once."""

from __future__ import annotations

import base64
import json
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer

from cli.conftest import Run, run  # noqa: F401
from cli.test_standalone import PORTS, Standalone, enrol, serving
from nearcast.errors import ConfigError
from nearcast.links.kafka_client import create_topics, open_consumer
from nearcast.links.kafka_records import AlertRecord, alert_record, headers
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.sdk import SyncClient
from nearcast.site.kafka_bridge import AlertBridge
from nearcast.site.kafka_events import EventService
from nearcast.testing.local_kafka import LocalKafka
from nearcast.testing.ports import closed_port
from shown_commands import in_help, in_pages, with_verb
from small_site.making import metrics_of, until
from small_site.services import working

FIELD = {"field_km": [0, 0, 20, 20]}


@pytest.fixture
def settings(kafka: LocalKafka) -> KafkaSettings:
    """Topics of the test's own."""
    settings = KafkaSettings(kafka.bootstrap, f"t{uuid4().hex[:8]}", events=("road/#",))
    create_topics(settings)
    return settings


def read_all(bootstrap: str, topic: str, wanted: int, within_s: float = 60.0) -> list[Any]:
    """Return the messages of a topic, `wanted` different ones at least."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        some = consumer.consume(500, 0.5)
        found += [one for one in some if one.error() is None]
        if len({dict(one.headers())["id"] for one in found}) >= wanted and not some:
            break
    consumer.close()
    return found


def number(server: Standalone, name: str) -> float:
    """Return what a server says of itself and Kafka."""
    return sum(metrics_of(server.http_port)[f"nearcast_kafka_{name}"].values())


def test_what_is_acknowledged_while_kafka_is_away_and_a_server_is_killed_arrives_there(
    kafka: LocalKafka,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    create_topics(KafkaSettings(kafka.bootstrap))
    data, words = tmp_path / "broker", ("--kafka", kafka.bootstrap)
    sent: list[str] = []

    def publish(publisher: SyncClient, count: int) -> None:
        some = [f"{len(sent) + one}" for one in range(count)]
        for receipt in [publisher.publish("street", text) for text in some]:
            receipt.wait(60)
        sent.extend(some)

    try:
        with serving(data, *PORTS, *words) as server:
            car = enrol(run, data, "car")
            with SyncClient.connect(car, timeout_s=30) as publisher:
                publish(publisher, 20)
                until(lambda: number(server, "records_sent") >= 20, "sent")
                kafka.kill()
                publish(publisher, 20)
                until(lambda: number(server, "records_waiting") >= 20, "waiting")
                publish(publisher, 20)  # the session goes on
                server.kill()
        with serving(data, *words) as again:
            with SyncClient.connect(car, timeout_s=30) as publisher:
                publish(publisher, 10)
            kafka.start()
            # its spool once more, what the other one left, and what is new
            until(lambda: number(again, "records_sent") >= len(sent), "sent", 120)
            until(lambda: number(again, "records_waiting") == 0, "drained", 120)
            assert number(again, "records_dropped_total") == 0
    finally:
        if not kafka.is_running:
            kafka.start()
    found = read_all(kafka.bootstrap, "nearcast.publications", len(sent))
    by_identity = {dict(one.headers())["id"]: json.loads(one.value()) for one in found}
    said = Counter(one["payload"] for one in by_identity.values() if one["client"] == "car")
    wanted = {base64.b64encode(text.encode()).decode() for text in sent}
    assert set(said) == wanted
    assert set(said.values()) == {1}


def test_reports_of_clients_become_alerts_in_kafka_that_reach_the_subscribers(
    kafka: LocalKafka,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    settings = KafkaSettings(kafka.bootstrap)
    create_topics(settings)
    data = tmp_path / "broker"
    words = ("--kafka", kafka.bootstrap, "--kafka-events", "road/#")
    service = EventService(settings, FIELD, group=uuid4().hex)
    with serving(data, *PORTS, *words):
        names = ("a", "b", "c", "sign", "service")
        a, b, c, sign, own = (enrol(run, data, name) for name in names)
        with (
            SyncClient.connect(sign, timeout_s=30) as listener,
            SyncClient.connect(a, timeout_s=30) as first,
            SyncClient.connect(b, timeout_s=30) as second,
            SyncClient.connect(c, timeout_s=30) as third,
        ):
            listener.subscribe("alerts/road/north")
            listener.report(5.0, 5.0)
            with working(service), working(AlertBridge(settings, own, group=uuid4().hex)):
                for one in (first, second, third):
                    said = {"position": [5, 5], "speed": 0, "event": "emergency"}
                    one.publish("road/north", json.dumps(said)).wait(60)
                heard = listener.next_notification(60)
    assert heard is not None
    assert json.loads(heard.payload)["alert"] == "emergency"
    assert heard.publisher == "service"


def test_alerts_made_while_the_bridge_was_away_are_told_later_once(
    kafka: LocalKafka,
    settings: KafkaSettings,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def produce(number: int, until_us: int | None = None, **headers_: bytes) -> None:
        alert = AlertRecord("t", "aGk=", 1, f"c{number}", {"n": number}, "", until_us)
        record = alert_record(alert, 0, settings)
        producer.produce(
            record.topic, record.value, record.key, headers={**dict(headers(record)), **headers_}
        )

    data, group = tmp_path / "broker", uuid4().hex
    with serving(data, *PORTS):
        sign, own = enrol(run, data, "sign"), enrol(run, data, "service")
        with SyncClient.connect(sign, timeout_s=30) as listener:
            listener.subscribe("alerts/t")
            produce(1)
            produce(1)  # the same once more
            produce(2, until_us=5)  # no longer counts
            produce(3, v=b"99")  # of a nearcast to come
            producer.produce(settings.topic("alerts"), b"{nonsense", headers={"v": b"1"})
            produce(4)
            producer.flush()
            first = AlertBridge(settings, own, group=group)
            with working(first):
                until(lambda: first.counts.told == 2, "told")
            produce(5)
            producer.flush()
            second = AlertBridge(settings, own, group=group)
            with working(second):
                until(lambda: second.counts.told == 1, "told")
            heard = [listener.next_notification(60) for _ in range(3)]
    assert [one.attributes["n"] for one in heard if one is not None] == [1, 4, 5]
    assert (first.counts.repeated, first.counts.expired, first.counts.malformed) == (1, 1, 2)


def test_an_event_broker_that_takes_over_knows_what_was_reported_before_and_does_not_repeat(
    kafka: LocalKafka, settings: KafkaSettings
) -> None:
    from nearcast.links.kafka_records import publication_record
    from nearcast.server.log_rows import PublicationRow

    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def report(who: str, sequence: int, at_s: float, event: str = "obstacle") -> None:
        said = {"position": [5, 5], "speed": 10, "event": event}
        row = PublicationRow(
            *("road/n", who, int(1.7e15 + at_s * 1e6), 5.0, 5.0, 0, "publish", sequence, 1),
            True,
            "e1",
            json.dumps(said).encode(),
        )
        record = publication_record(row, settings)
        producer.produce(record.topic, record.value, record.key, headers=dict(headers(record)))
        producer.flush()

    group = uuid4().hex
    first = EventService(settings, FIELD | {"congestion": False}, group=group)
    with working(first):
        report("a", 1, 0.0, "emergency")
        report("a", 2, 0.1)
        until(lambda: first.counts.records == 2, "records")
    second = EventService(settings, FIELD | {"congestion": False}, group=group)
    with working(second):
        report("b", 1, 0.2)  # the second reporter of an obstacle; the first told the other broker
        report("b", 2, 3.0, "nothing")
        until(lambda: second.counts.alerts >= 1, "alerts")
    assert first.counts.alerts == 1
    found = read_all(kafka.bootstrap, settings.topic("alerts"), 2)
    kinds = [
        json.loads(base64.b64decode(json.loads(one.value())["payload"]))["alert"] for one in found
    ]
    assert kinds == ["emergency", "obstacle"]


def test_a_kafka_that_is_not_there_and_topics_that_are_missing_are_one_sentence(
    kafka: LocalKafka,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    nowhere = f"127.0.0.1:{closed_port()}"
    answer = run("kafka", "topics", "--bootstrap", nowhere)
    assert answer.code == 2
    assert answer.err.startswith(f"error: no Kafka answers at {nowhere}")
    words = ("--bootstrap", kafka.bootstrap, "--prefix", "not-made")
    answer = run("kafka", "events", *words, "--options", json.dumps(FIELD))
    assert answer.code == 2
    assert "has no topic 'not-made.events'" in answer.err
    assert run("kafka", "topics", *words, "--json").json == {
        "made": [
            f"not-made.{kind}"
            for kind in ("publications", "events", "reports", "notifications", "alerts")
        ]
    }
    answer = run(
        "kafka", "events", *words, "--options", json.dumps(FIELD), "--for", "0.1", "--json"
    )
    assert answer.json == {"records": 0, "repeated": 0, "malformed": 0, "alerts": 0}
    answer = run("kafka", "topics", *words, "--kafka-option", "no.such=1")
    assert answer.code == 2
    assert "No such configuration property" in answer.err
    answer = run("kafka", "events", *words, "--options", '{"field_km": [1]}')
    assert answer.code == 2
    assert run("kafka", "topics", "--bootstrap", "nonsense").code == 2


def test_who_may_not_read_a_topic_is_told_so(kafka: LocalKafka, settings: KafkaSettings) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    binding = AclBinding(
        ResourceType.TOPIC,
        settings.topic("events"),
        ResourcePatternType.LITERAL,
        "User:somebody-else",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for made in admin.create_acls([binding]).values():
        made.result(30)
    service = EventService(settings, FIELD, group=uuid4().hex)
    with pytest.raises(ConfigError, match=r"has no topic|authoriz"):
        service.run(lambda: False)
    with pytest.raises(ConfigError, match="refuses its settings"):
        open_consumer(settings, "", **{"max.poll.interval.ms": "nonsense"})


def test_the_commands_of_the_page_run(
    kafka: LocalKafka,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    shown = [*in_pages(), *(line for lines in in_help().values() for line in lines)]
    lines = with_verb(shown, "kafka")
    assert len(lines) >= 3
    data = tmp_path / "broker"
    with serving(data, *PORTS):
        enrol(run, data, "service")
        for line in lines:
            answer = run(*shlex.split(line.replace("127.0.0.1:9092", kafka.bootstrap))[1:])
            assert answer.code == 0, (line, answer.err)


def test_what_goes_with_kafka_wants_it(run: Run) -> None:  # noqa: F811
    for option in ("--kafka-prefix", "--kafka-events"):
        answer = run("serve", "standalone", "--data", "broker", option, "x")
        assert answer.code == 2
        assert "want --kafka HOST:PORT" in answer.err

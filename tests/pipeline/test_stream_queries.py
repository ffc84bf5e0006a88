"""Streams on Spark, from a real Kafka and from an event log: each alert and each row once."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from confluent_kafka import Consumer, Producer

from cli.conftest import Run
from nearcast.errors import ConfigError, OutputError
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_records import AlertRecord, Record, alert_record, headers
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_topic import AlertTopic
from nearcast.pipeline.stream.batch_files import BatchFiles
from nearcast.server.log_rows import PublicationRow
from nearcast.testing.local_kafka import LocalKafka
from nearcast.testing.ports import closed_port
from pipeline.event_records import FIELD, expected_alerts, random_events, to_records
from pipeline.test_site_log import random_site_rows, write_site_log
from small_site.making import write_small_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = json.dumps(FIELD)


@pytest.fixture
def settings(kafka: LocalKafka) -> KafkaSettings:
    settings = KafkaSettings(kafka.bootstrap, f"s{uuid4().hex[:8]}", events=("road/#",))
    create_topics(settings, partitions=2)
    return settings


def produce(settings: KafkaSettings, records: Iterable[Record], **more: bytes) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    for one in records:
        producer.produce(one.topic, one.value, one.key, headers={**dict(headers(one)), **more})
    producer.flush()


def alerts_in_kafka(settings: KafkaSettings) -> list[tuple[str, bytes]]:
    consumer: Any = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([settings.topic("alerts")])
    found, ended = [], set[int]()
    while len(ended) < 2:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            ended.add(message.partition())
        else:
            found.append((dict(message.headers())["id"].decode(), message.value()))
    consumer.close()
    return found


def read_table(folder: Path) -> list[dict[str, Any]]:
    return parquet.read_table(folder, partitioning=None).to_pylist()  # type: ignore[no-any-return]


def test_events_of_kafka_become_the_alerts_of_the_live_broker_once_whatever_fails_between(
    spark: SparkSession,
    settings: KafkaSettings,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, out = random_events(900), tmp_path / "out"
    records = to_records(rows, settings)
    where = ["--bootstrap", settings.bootstrap, "--prefix", settings.prefix, "--out", out]
    command = ["pipeline", "stream", *where, "--options", OPTIONS, "--once", "--json"]
    produce(settings, records[:500])
    produce(settings, records[:3])  # repeated
    produce(settings, records[500:501], v=b"99")  # of a nearcast to come
    produce(settings, [records[0]._replace(value=b"{nonsense")])

    def refuse(*_: object) -> None:
        raise OutputError("out: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(BatchFiles, "write", refuse)
        failed = run(*command)
    assert failed.code == 2
    assert failed.err.splitlines()[-1] == ("error: stream nearcast-alerts: out: the disk is full")
    first = run(*command)  # the batch again: its alerts are in Kafka, not in the table
    assert first.code == 0, first.err
    expected = expected_alerts(rows[:500], settings)
    assert first.json["alerts"] == {
        "records": 500,
        "repeated": 3,
        "refused": 2,
        "alerts": len(expected),
        "sent before": len(expected),
    }
    assert "nearcast-alerts, batch 0: 505 rows in" in first.err
    produce(settings, records[500:])
    assert run(*command).json["alerts"]["records"] == 400
    expected = expected_alerts(rows, settings)  # bins and reputations went on
    told = alerts_in_kafka(settings)
    assert len(told) == len(expected)
    assert dict(told) == expected
    table = read_table(out / "alerts")
    assert {row["id"]: row["payload"] for row in table} == {
        key: base64.b64decode(json.loads(value)["payload"]) for key, value in expected.items()
    }
    assert len(table) == len(expected)
    reasons = sorted(row["reason"] for row in read_table(out / "quarantine"))
    assert ["version b'99'" in reasons[0], "malformed" in reasons[1]] == [True, True]
    both = run(*command, "--members")  # one more query begins, from what Kafka retains
    assert both.json["alerts"] == {}, both.err
    assert both.json["traffic"]["refused"] == 2
    messages = Counter((row.topic, row.client) for row in rows)
    members = read_table(out / "traffic" / "latest" / "members")
    assert {(row["topic"], row["client"]): row["messages"] for row in members} == messages
    other = run(*command[:-2], "--options", '{"field_km": [0, 0, 9, 9]}', "--once")
    assert other.code == 2
    assert "its checkpoint is of another query: options was" in other.err


def test_an_event_log_becomes_alerts_members_rates_positions_and_a_word_about_the_plan(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    events = random_events(300)
    rows = [
        # where clients are differs from the plan, so that another one pays
        row._replace(x_km=float(int(row.client[1:]) % 2 == 0), y_km=0.1)
        for row in random_site_rows(400)
    ]
    again = next(row for row in rows if row.action == "publish")._replace(server="e3")
    later_us = events[-1].time_us + 60_000_000  # what came before is no longer held
    ends = [
        events[-1]._replace(topic=f"road/{one}", time_us=later_us, sequence=10_000)
        for one in range(3)
    ]
    clients, topics = [f"c{one}" for one in range(15)], [f"t{one}" for one in range(7)]
    city = write_small_scenario(tmp_path / "city", edges=2, clients=clients, topics=topics)
    log, out = tmp_path / "log", tmp_path / "out"
    where = ["--log", log, "--out", out, "--events", "road/#", "--options", OPTIONS, "--members"]
    plan = ["--scenario", city, "--plan", city / "plan", "--weigh-every", "1ms"]
    command = ["pipeline", "stream", *where, *plan, "--once", "--json"]
    (log / "notifications").mkdir(parents=True)
    told = pa.table(
        {"topic": ["t1"], "clients": [["c1", "c2"]], "notified_us": [1_700_000_049_000_000]}
    )
    parquet.write_table(told, log / "notifications" / "n.parquet")
    write_site_log(log, [*rows[:200], *events])
    first = run(*command)
    assert first.code == 0, first.err
    write_site_log(log, [*rows[200:], again, *ends])
    second = run(*command)
    assert second.code == 0, second.err
    kafka = KafkaSettings("none:1", events=("road/#",))
    expected = expected_alerts(events, kafka)
    assert sorted(row["id"] for row in read_table(out / "alerts")) == sorted(expected)

    newest = out / "traffic" / "latest"
    members = {
        (row["topic"], row["client"]): row
        for row in read_table(newest / "members")
        if row["topic"].startswith("t")
    }
    now_s = later_us / 1e6
    assert json.loads((newest / "now.json").read_text()) == {"now_s": now_s}
    counted = [row for row in rows if row.topic is not None]
    for key in {(row.topic, row.client) for row in counted}:
        own = [row for row in counted if (row.topic, row.client) == key]
        sent = [row.time_us / 1e6 for row in own if row.action == "publish"]
        words = [row.action == "subscribe" for row in own if row.action != "publish"]
        found = members.pop(key)
        assert found["messages"] == len(sent)
        rate_hz = sum(math.exp((time_s - now_s) / 60) for time_s in sent) / 60
        assert found["rate_hz"] == pytest.approx(rate_hz)
        assert found["subscribes"] == (words[-1] if words else None)
        assert (found["notified_s"] is not None) == (key in {("t1", "c1"), ("t1", "c2")})
    assert not members
    places = {row["client"]: (row["x_km"], row["y_km"]) for row in read_table(newest / "clients")}
    last: dict[str, PublicationRow] = {row.client: row for row in rows}
    assert {name: places[name] for name in last} == {
        name: (row.x_km, row.y_km) for name, row in last.items()
    }
    drift = read_table(out / "drift")
    assert len(drift) == 2
    for row in drift:
        assert row["bound"] <= row["cost_after"] < row["cost_before"]
        assert row["trigger"]
        assert (row["unknown_clients"], row["failed"]) == (20, False)
    assert second.json["traffic"]["triggers"] == 1


def test_alerts_of_a_batch_that_is_repeated_are_in_kafka_once(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    alerts = [
        alert_record(AlertRecord(f"t{one}", "aGk=", 1, f"c{one}"), 0, settings) for one in range(9)
    ]
    note = tmp_path / "note"
    assert AlertTopic(settings, note).write(4, alerts[:3]) == 0
    assert AlertTopic(settings, note).write(5, alerts[3:6]) == 0
    # killed in the middle of batch 6: some are there, and not noted as such
    topic = AlertTopic(settings, note)
    assert topic.write(6, alerts[6:8]) == 0
    again = AlertTopic(settings, note)
    assert again.write(6, alerts[6:]) == 2
    assert again.write(6, alerts[6:]) == 3
    assert sorted(one for one, _ in alerts_in_kafka(settings)) == sorted(
        one.identity for one in alerts
    )


def test_what_kafka_or_the_disk_refuses_is_one_sentence(
    kafka: LocalKafka, settings: KafkaSettings, run: Run, tmp_path: Path
) -> None:
    def stream(bootstrap: str, prefix: str, *more: object) -> str:
        where = ["--bootstrap", bootstrap, "--prefix", prefix, "--out", tmp_path / "out"]
        answer = run("pipeline", "stream", *where, "--options", OPTIONS, "--once", *more)
        assert answer.code == 2
        (line,) = (one for one in answer.err.splitlines() if one.startswith(("error", "Error")))
        assert not (tmp_path / "out").exists()
        return line

    nowhere = f"127.0.0.1:{closed_port()}"
    assert f"no Kafka answers at {nowhere}" in stream(nowhere, "nearcast")
    assert "has no topic 'not-made-1.alerts'" in stream(kafka.bootstrap, "not-made-1")
    assert "HOST:PORT" in stream("nonsense", "nearcast")
    bad = stream(settings.bootstrap, settings.prefix, "--kafka-option", "no.such=1")
    assert "No such configuration property" in bad
    none = stream(settings.bootstrap, settings.prefix, "--scenario", tmp_path, "--plan", tmp_path)
    assert "scenario" in none
    answer = run("pipeline", "stream", "--log", tmp_path, "--members", "--out", tmp_path / "out")
    assert "there is no event log with publications" in answer.err
    usage = run("pipeline", "stream", "--log", tmp_path, "--out", tmp_path / "out")
    assert "give --options for alerts" in usage.err


def restrict(topic: str, user: str, settings: KafkaSettings) -> None:
    """Let only a user read a topic, and everybody see that it is there."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    rights = [(user, AclOperation.READ), ("User:*", AclOperation.DESCRIBE)]
    bindings = [
        AclBinding(
            *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, who, "*"),
            *(what, AclPermissionType.ALLOW),
        )
        for who, what in rights
    ]
    for made in admin.create_acls(bindings).values():
        made.result(30)


def test_who_may_not_read_events_is_told_so(
    spark: SparkSession, settings: KafkaSettings, run: Run, tmp_path: Path
) -> None:
    topic = settings.topic("events")
    produce(settings, to_records(random_events(5), settings))
    restrict(topic, "User:somebody-else", settings)
    where = ["--bootstrap", settings.bootstrap, "--prefix", settings.prefix]
    answer = run(
        *("pipeline", "stream", *where, "--out", tmp_path / "out", "--options", OPTIONS, "--once")
    )
    assert answer.code == 2
    said = answer.err.splitlines()[-1]
    assert said.startswith("error: stream nearcast-alerts: ")
    assert "authorized" in said
    assert topic in said


def test_who_may_not_write_alerts_is_told_so(settings: KafkaSettings, tmp_path: Path) -> None:
    topic = settings.topic("alerts")
    restrict(topic, "User:ANONYMOUS", settings)
    alert = alert_record(AlertRecord("t", "aGk=", 1, "c"), 0, settings)
    with pytest.raises(ConfigError, match=f"does not take alerts to '{topic}'.*authoriz"):
        AlertTopic(settings, tmp_path / "note").write(1, [alert])

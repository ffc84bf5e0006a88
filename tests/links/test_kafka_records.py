"""What Kafka gets of rows: their identity, where they go, and what is refused when it is read."""

from __future__ import annotations

import pytest

from nearcast.errors import WireError
from nearcast.links.kafka_records import (
    VERSION,
    AlertRecord,
    alert_record,
    notification_record,
    publication_record,
    read_alert,
    read_identity,
    read_publication,
)
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.server.log_rows import LogAction, NotificationRow, PublicationRow

SETTINGS = KafkaSettings("localhost:1", "p", events=("road/#",))


def row(
    topic: str | None = "t", action: LogAction = "publish", sequence: int = 4, durable: bool = True
) -> PublicationRow:
    return PublicationRow(
        topic,
        "c",
        1_700_000_000_000_001,
        1.5,
        -2.5,
        3,
        action,
        sequence,
        7,
        durable,
        "e1",
        b"\0a\xff",
    )


def test_a_publication_reads_back_as_it_was() -> None:
    record = publication_record(row(), SETTINGS)
    read = read_publication(VERSION, record.value)
    assert (read.topic, read.client, read.epoch, read.sequence, read.durable) == (
        "t",
        "c",
        7,
        4,
        True,
    )
    assert (read.time_us, read.x_km, read.y_km) == (1_700_000_000_000_001, 1.5, -2.5)
    assert (read.data, read.server, read.action) == (b"\0a\xff", "e1", "publish")


def test_rows_go_where_they_belong() -> None:
    assert publication_record(row(), SETTINGS)[:2] == ("p.publications", b"t")
    assert publication_record(row("road/a"), SETTINGS)[:2] == ("p.events", b"road/a")
    assert publication_record(row("road/a", "subscribe"), SETTINGS).topic == "p.publications"
    assert publication_record(row(None, "report"), SETTINGS)[:2] == ("p.reports", b"c")


def test_the_same_publication_has_one_identity_and_others_have_others() -> None:
    from_another_home = row()._replace(server="e2", time_us=9)
    assert publication_record(row(), SETTINGS).identity == (
        publication_record(from_another_home, SETTINGS).identity
    )
    others = [row(), row(sequence=5), row(durable=False), row("u"), row("t", "subscribe")]
    assert len({publication_record(one, SETTINGS).identity for one in others}) == len(others)


def test_a_notification_names_its_receivers() -> None:
    said = NotificationRow("t", "c", 7, 4, 0, ("x", "y"), "e1", 1, 2, 3, 4, 5, 6)
    record = notification_record(said, SETTINGS)
    assert record.topic == "p.notifications"
    assert b'"clients":["x","y"]' in record.value
    other_home = notification_record(said._replace(server="e2"), SETTINGS)
    assert other_home.identity != record.identity


def test_an_alert_reads_back_as_it_was() -> None:
    alert = AlertRecord(
        "road", "aGk=", 5, "cause", {"alert": "ice", "is_new": True}, "POINT (1 2)", 9
    )
    record = alert_record(alert, 0, SETTINGS)
    assert read_alert(VERSION, record.value) == alert
    assert alert.data == b"hi"
    assert alert_record(alert, 1, SETTINGS).identity != record.identity


@pytest.mark.parametrize(
    ("version", "value", "said"),
    [
        (None, b"{}", "no version"),
        (b"2", b"{}", "version b'2'"),
        (VERSION, b"{", "malformed"),
        (VERSION, None, "malformed"),
        (VERSION, b"[]", "malformed"),
        (VERSION, b'{"topic": 3}', "malformed"),
        (VERSION, b'{"topic": "t", "payload": "?", "time_us": 1}', "not base64"),
        (VERSION, b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "malformed"),
        (VERSION, b'{"topic": "t", "payload": "", "time_us": 1' + b"0" * 400 + b"}", "malformed"),
        (VERSION, b'{"topic": "t", "payload": "", "time_us": -1}', "malformed"),
        (VERSION, b'{"topic": "t", "payload": "' + b"A" * (1 << 18) + b'"}', "bytes"),
    ],
)
def test_what_is_not_a_record_is_one_sentence(
    version: bytes | None, value: bytes | None, said: str
) -> None:
    with pytest.raises(WireError, match=said):
        read_alert(version, value)


@pytest.mark.parametrize("said", [None, b"", b"x" * (1 << 16)])
def test_a_record_without_an_identity_does_not_count(said: bytes | None) -> None:
    with pytest.raises(WireError, match="identity"):
        read_identity(said)
    assert read_identity(b"c/7/d/4/t") == "c/7/d/4/t"

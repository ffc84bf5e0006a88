"""Records in Kafka that somebody made up: each is passed over, none ends the service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nearcast.links.kafka_settings import KafkaSettings
from nearcast.site.kafka_bridge import AlertBridge
from nearcast.site.kafka_events import EventService

SETTINGS = KafkaSettings("localhost:1")
EVENT = {
    "topic": "t",
    "client": "c",
    "time_us": 1,
    "x_km": 1.0,
    "y_km": 1.0,
    "action": "publish",
    "epoch": 1,
    "sequence": 1,
    "durable": True,
    "server": "e1",
    "payload": "",
}
ALERT = {"topic": "t", "payload": "", "time_us": 1}
DEEP = b"[" * 100_000 + b"]" * 100_000


class Message:
    """A record as the consumer gives it."""

    def __init__(self, value: bytes, *headers: tuple[str, bytes]) -> None:
        self._value, self._headers = value, list(headers)

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return self._headers

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


def made_up(plain: dict[str, Any], **values: Any) -> Message:
    value = json.dumps(plain | values).encode()
    return Message(value, ("v", b"1"), ("id", b"made up"))


HOSTILE = [
    Message(b""),
    Message(DEEP, ("v", b"1"), ("id", b"deep")),
    Message(b'{"x": ' + DEEP + b"}", ("v", b"1"), ("id", b"deeper")),
]


def test_no_event_ends_the_service() -> None:
    service = EventService(SETTINGS, {"field_km": [0, 0, 10, 10]})
    hostile = [made_up(EVENT, time_us=one) for one in (10**400, -1, 1 << 63)]
    hostile.append(made_up(EVENT, topic="x" * 200_000))
    plain = json.dumps(EVENT).encode()
    without_identity = [Message(plain, ("v", b"1"), ("id", b"")), Message(plain, ("v", b"1"))]
    for one in (*HOSTILE, *hostile, *without_identity):
        assert service._take(one) == ()
    assert service.counts.malformed == len(HOSTILE) + 6
    service._take(made_up(EVENT))
    assert (service.counts.records, service.counts.repeated) == (1, 0)


@pytest.mark.parametrize("until_us", [10**400, -(10**400), 1 << 63])
def test_no_alert_ends_the_bridge(until_us: int) -> None:
    bridge = AlertBridge(SETTINGS, Path("never read"))
    client: Any = None  # nothing is published
    plain = json.dumps(ALERT).encode()
    hostile = [made_up(ALERT, valid_until_us=until_us), Message(plain, ("v", b"1"))]
    for one in (*HOSTILE, *hostile):
        assert bridge._publish(client, one) is None
    assert bridge.counts.malformed == len(HOSTILE) + 2

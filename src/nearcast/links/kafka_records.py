"""Records in Kafka: JSON with a version, and an identity by which they count once.

The same publication may be in Kafka several times: its publisher repeated it, a home sent it again
after a crash. `Record.identity`, the header ``id``, is the same then.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from nearcast.errors import WireError
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.trust.topic_pattern import matches

__all__ = [
    "VERSION",
    "AlertRecord",
    "PublicationRecord",
    "Record",
    "alert_record",
    "headers",
    "notification_record",
    "publication_record",
    "read_alert",
    "read_identity",
    "read_publication",
]

VERSION = b"1"
_NOTIFICATION_FIELDS = (
    *("topic", "publisher", "epoch", "sequence", "part", "clients", "server", "published_us"),
    *("received_us", "processing_us", "processed_us", "notified_us", "size_bytes", "durable"),
)
_encode = msgspec.json.Encoder().encode
_LARGEST_VALUE_BYTES = 1 << 18
"""Of a record: several times a datagram, and an alert of it is one that Kafka takes."""
_LONGEST_IDENTITY_BYTES = 1 << 15
_Name = Annotated[str, Meta(max_length=1 << 14)]
_Number = Annotated[int, Meta(ge=0, le=1 << 62)]
"""Any program that may write to Kafka chooses it: far from where arithmetic fails."""


class Record(NamedTuple):
    """What is sent to Kafka."""

    topic: str
    key: bytes
    value: bytes
    identity: str


class PublicationRecord(msgspec.Struct):
    """The value of a record of ``publications``, ``events`` and ``reports``."""

    topic: _Name | None
    client: _Name
    time_us: _Number
    x_km: float | None
    y_km: float | None
    action: str
    epoch: _Number
    sequence: _Number
    durable: bool
    server: str
    payload: str
    """Base64."""

    @property
    def data(self) -> bytes:
        """The payload as it was published; WireError when it is not base64."""
        return _from_base64(self.payload)


class AlertRecord(msgspec.Struct):
    """The value of a record of ``alerts``: what subscribers of a topic are to be told."""

    topic: _Name
    payload: str
    """Base64."""
    time_us: _Number
    """Of the message that caused it, at its home."""
    cause: str = ""
    """The identity of the publication that caused it."""
    attributes: dict[str, str | int | float | bool] = {}
    area: str = ""
    """Who is told: clients in it, in km, as GeoJSON or text; empty: all."""
    valid_until_us: _Number | None = None
    """After it nobody is told."""

    @property
    def data(self) -> bytes:
        """The payload as it is published; WireError when it is not base64."""
        return _from_base64(self.payload)


_Value = TypeVar("_Value", PublicationRecord, AlertRecord)


def headers(record: Record) -> list[tuple[str, bytes]]:
    """Return the headers of a record."""
    return [("v", VERSION), ("id", record.identity.encode())]


def publication_record(row: tuple[Any, ...], settings: KafkaSettings) -> Record:
    """Return what Kafka gets of a row with the fields of `PublicationRow`."""
    topic, client, time_us, x_km, y_km, _, action, sequence, epoch, durable, server, payload = row
    said = PublicationRecord(
        *(topic, client, time_us, x_km, y_km, action, epoch, sequence, durable, server),
        base64.b64encode(payload).decode(),
    )
    if action == "publish":
        is_event = any(matches(pattern, topic) for pattern in settings.events)
        kind = "events" if is_event else "publications"
        how = "d" if durable else "o"
        identity = f"{client}/{epoch}/{how}/{sequence}/{topic}"
    else:
        kind = "reports" if action == "report" else "publications"
        identity = f"{client}/{time_us}/{action}/{topic or ''}"
    # one topic is in one partition, in order; positions are spread by client
    key = client if topic is None else topic
    return Record(settings.topic(kind), key.encode(), _encode(said), identity)


def notification_record(row: tuple[Any, ...], settings: KafkaSettings) -> Record:
    """Return what Kafka gets of a row with the fields of `NotificationRow`."""
    said = dict(zip(_NOTIFICATION_FIELDS, row, strict=True))
    how = "d" if said["durable"] else "o"
    identity = (
        f"{said['publisher']}/{said['epoch']}/{how}/{said['sequence']}/{said['part']}/"
        f"{said['server']}/{said['notified_us']}/{said['topic']}"
    )
    return Record(settings.topic("notifications"), said["topic"].encode(), _encode(said), identity)


def alert_record(alert: AlertRecord, part: int, settings: KafkaSettings) -> Record:
    """Return what Kafka gets of an alert; `part` counts those of one publication."""
    identity = f"{part}/{alert.cause}"
    return Record(settings.topic("alerts"), alert.topic.encode(), _encode(alert), identity)


def read_publication(version: bytes | None, value: bytes | None) -> PublicationRecord:
    """Return what a record says.

    Raises
    ------
    WireError
        When it is of another version, or not such a record.
    """
    return _read(version, value, PublicationRecord)


def read_alert(version: bytes | None, value: bytes | None) -> AlertRecord:
    """Return what a record says.

    Raises
    ------
    WireError
        When it is of another version, or not such a record.
    """
    return _read(version, value, AlertRecord)


def read_identity(said: bytes | None) -> str:
    """Return the identity that a record's header says.

    Raises
    ------
    WireError
        When it says none: all such records would count as one.
    """
    if not said or len(said) > _LONGEST_IDENTITY_BYTES:
        raise WireError("the record has no identity" if not said else "its identity is too long")
    return said.decode(errors="replace")


def _read(version: bytes | None, value: bytes | None, kind: type[_Value]) -> _Value:
    if version != VERSION:
        said = "no version" if version is None else f"version {version[:20]!r}"
        raise WireError(f"the record has {said}; this nearcast reads {VERSION.decode()}")
    if value is not None and len(value) > _LARGEST_VALUE_BYTES:
        raise WireError(f"the record has {len(value)} bytes; {_LARGEST_VALUE_BYTES} are read")
    try:
        record = msgspec.json.decode(value or b"", type=kind)
        record.data  # noqa: B018  (complains)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(f"the record is malformed: {error}") from None
    return record


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise WireError(f"the record's payload is not base64: {error}") from None

"""The frames of each message at a server: Publish and Received in, Notify and Published out.

A Publish becomes a `Publication` without a stop in between. The body of a Notify is made once by
the broker, travels to the homes of its receivers as it is, and each home adds only its time: the
fields of a Protobuf message may come in any order.
"""

from __future__ import annotations

from functools import lru_cache
from math import nan
from struct import Struct

from google.protobuf.message import DecodeError

from nearcast.errors import WireError
from nearcast.wire.areas import FURTHEST_KM
from nearcast.wire.codec import Refused, check_published_topic, encode, notify_fields
from nearcast.wire.generated import nearcast_pb2
from nearcast.wire.messages import Notify, Published
from nearcast.wire.publication import NUMBER_END, Origin, Publication

__all__ = [
    "NOTIFY",
    "PUBLISH",
    "RECEIVED",
    "decode_notify",
    "decode_publication",
    "decode_received",
    "encode_notify",
    "notify_frame",
    "published_frame",
    "time_field",
]

PUBLISH = 5
"""Type of a Publish frame."""
NOTIFY = 12
"""Type of a Notify frame."""
RECEIVED = 13
"""Type of a Received frame."""

_LARGEST_US = 1 << 63
_NOTIFIED_TAG = 11 << 3 | 1
_pack_time = Struct("<BQ").pack
_parse_publish = nearcast_pb2.Publish.FromString
_parse_received = nearcast_pb2.Received.FromString
_Notify = nearcast_pb2.Notify
_DIRECT, _ONCE = Origin.DIRECT, Origin.ONCE


def decode_publication(body: bytes, publisher: str, received_us: int) -> Publication:
    """Return the publication of a Publish; one without a position has x_km = nan."""
    try:
        parsed = _parse_publish(body)
    except DecodeError:
        raise Refused("malformed") from None
    topic, epoch, sequence = parsed.topic, parsed.epoch, parsed.sequence
    oldest, published_us = parsed.oldest, parsed.published_us
    x_km = y_km = nan
    if parsed.has_position:
        x_km, y_km = parsed.x_km, parsed.y_km
        if not (-FURTHEST_KM <= x_km <= FURTHEST_KM and -FURTHEST_KM <= y_km <= FURTHEST_KM):
            raise Refused("invalid_field")
    if (
        check_published_topic(topic) is not None
        or oldest > sequence
        or not 0 < sequence < NUMBER_END
        or epoch >= NUMBER_END
        or published_us >= _LARGEST_US
    ):
        raise Refused("invalid_field")
    return Publication(
        topic,
        publisher,
        epoch,
        sequence,
        published_us,
        received_us,
        x_km,
        y_km,
        parsed.payload,
        _DIRECT if parsed.durable else _ONCE,
        oldest,
        received_us,
        envelope=parsed.envelope,
    )


def decode_received(body: bytes) -> tuple[int, int, int]:
    """Return what a Received says: highest counter, bitmap, counter below which all arrived."""
    try:
        parsed = _parse_received(body)
    except DecodeError:
        raise Refused("malformed") from None
    return parsed.highest, parsed.bitmap, parsed.all_below


def encode_notify(notify: Notify) -> bytes:
    """Return the body of a Notify without the home's time; WireError when a value has no form."""
    try:
        body: bytes = _Notify(
            topic=notify.topic,
            publisher=notify.publisher,
            epoch=notify.epoch,
            sequence=notify.sequence,
            durable=notify.durable,
            part=notify.part,
            payload=notify.payload,
            published_us=notify.published_us,
            received_us=notify.received_us,
            processed_us=notify.processed_us,
            processing_us=notify.processing_us,
            broker=notify.broker,
            offset=notify.offset,
            previous=notify.previous,
            envelope=notify.envelope,
        ).SerializeToString()
    except (ValueError, TypeError) as error:
        raise WireError(f"Notify: {error}") from None
    return body


def decode_notify(body: bytes) -> Notify:
    """Return what the body of a Notify says; WireError when it is not one."""
    try:
        return Notify(*notify_fields(body))
    except Refused as refusal:
        raise WireError(f"the body of a Notify: {refusal}") from None


def time_field(notified_us: int) -> bytes:
    """Return the field by which a home says when it sent a notification."""
    return _pack_time(_NOTIFIED_TAG, notified_us)


def published_frame(topic: str, epoch: int, up_to: int, level: int = 1) -> bytes:
    """Return the frame of a Published; level 1 goes without saying."""
    if level > 1:
        return encode(Published(topic, epoch, up_to, level))
    head, number = _published_head(topic, epoch), _varint(up_to)
    size = len(head) + 1 + len(number)
    return b"".join((b"\x06", size.to_bytes(2, "big"), head, b"\x18", number))


@lru_cache(8_192)
def _published_head(topic: str, epoch: int) -> bytes:
    head: bytes = nearcast_pb2.Published(topic=topic, epoch=epoch).SerializeToString()
    return head


def _varint(number: int) -> bytes:
    """Return a number as Protobuf writes it."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def notify_frame(body: bytes, notified: bytes) -> bytes:
    """Return the frame of a Notify from its body and the home's `time_field`."""
    size = len(body) + len(notified)
    if size > 0xFFFF:
        raise WireError(f"Notify: {size} bytes do not fit into a datagram")
    return b"".join((b"\x0c", size.to_bytes(2, "big"), body, notified))

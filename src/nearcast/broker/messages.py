"""A published message as brokers keep it, and its bytes in the spool."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error

import msgspec

__all__ = ["Message", "Origin", "decode_message", "encode_message"]

# origin, length of the publisher's id, epoch, sequence, published, received, x, y
_FIXED = Struct("<BHQQdddd")


class Origin(IntEnum):
    """How a message came to this broker."""

    DIRECT = 0
    """From its publisher: spooled and processed here."""
    COPY = 1
    """From another broker of the topic, which has processed it: spooled only."""
    ONCE = 2
    """From its publisher, who wants no acknowledgement: processed, and spooled until a restart."""


_ORIGINS = (Origin.DIRECT, Origin.COPY, Origin.ONCE, Origin.DIRECT)


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message; (topic, publisher, epoch, sequence) is its identity.

    Messages of `Origin.ONCE` have an epoch and a sequence of their own.
    """

    topic: str
    publisher: str
    epoch: int
    """Rises each time the publisher begins to count anew."""
    sequence: int
    """Counts the publisher's messages of this topic and epoch, from 1, without gaps but for ONCE."""
    published_at_s: float
    received_at_s: float
    x_km: float
    y_km: float
    payload: bytes
    origin: Origin = Origin.DIRECT


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message; its topic is not among them, the spool has it."""
    publisher = message.publisher.encode()
    return (
        _FIXED.pack(
            message.origin,
            len(publisher),
            message.epoch,
            message.sequence,
            message.published_at_s,
            message.received_at_s,
            message.x_km,
            message.y_km,
        )
        + publisher
        + message.payload
    )


def decode_message(topic: str, record: bytes) -> Message:
    """Return the message of a record.

    Raises
    ------
    ValueError
        When the record is none.
    """
    try:
        origin, length, epoch, sequence, published, received, x, y = _FIXED.unpack_from(record)
    except error as problem:
        raise ValueError(f"a record of {len(record)} bytes is no message") from problem
    start = _FIXED.size + length
    if len(record) < start:
        raise ValueError("a record ends within the publisher's id")
    return Message(
        topic,
        record[_FIXED.size : start].decode(),
        epoch,
        sequence,
        published,
        received,
        x,
        y,
        record[start:],
        _ORIGINS[origin & 3],
    )

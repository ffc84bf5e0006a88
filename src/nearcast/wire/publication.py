"""A publication on its way: one struct from the wire to the processor, and its record bytes.

The record is made once and is the same in the spool, in a copy for another broker and in a
forwarded message; the topic is not in it, whatever holds the record names it.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error

import msgspec

from nearcast.wire.areas import FURTHEST_KM

__all__ = ["AS_IT_IS", "NO_NOTICES", "NUMBER_END", "Origin", "Publication", "decode_record"]

NO_NOTICES = b"\x00"
"""A publication caused no notification."""
AS_IT_IS = b"\x01"
"""It caused one of all subscribers that says the same; `broker.notices` has the form of others."""

NUMBER_END = 1 << 62
"""Epochs and sequence numbers are below, for every server and on every way: what one took that
others refuse would hold up the streams that move along with it."""

# origin, length of the publisher's id, epoch, sequence, published, received, x, y
_FIXED = Struct("<BHQQQQdd")
_ENVELOPED = 0x80
"""Bit of the origin: an envelope, after its length, stands between publisher and payload."""
_LENGTH = Struct("<H")
_LARGEST = 1 << 63
_pack, _unpack_from, _SIZE = _FIXED.pack, _FIXED.unpack_from, _FIXED.size


class Origin(IntEnum):
    """How a publication came to this broker."""

    DIRECT = 0
    """From its publisher: spooled and processed here."""
    COPY = 1
    """From another broker of the topic, which has processed it: spooled only."""
    ONCE = 2
    """From its publisher, who wants no acknowledgement: processed, and spooled until a restart."""


_ORIGINS = tuple(Origin)


class Publication(msgspec.Struct, gc=False, eq=False):
    """A message of a publisher; (topic, publisher, epoch, sequence) is its identity.

    Those of `Origin.ONCE` have an epoch and a sequence of their own.
    """

    topic: str
    publisher: str
    epoch: int
    """Rises each time the publisher begins to count anew."""
    sequence: int
    """Counts the publisher's messages of this topic and epoch, from 1, without gaps but for ONCE."""
    published_us: int
    """When it was published, as far as its publisher knows the site's time."""
    received_us: int
    """When the publisher's home got it; the site's time."""
    x_km: float
    y_km: float
    payload: bytes
    origin: Origin = Origin.DIRECT
    oldest: int = 0
    """The lowest sequence that its publisher still needs acknowledged; 0 when nobody said."""
    arrived_us: int = 0
    """When this server got it: waiting is counted from then on."""
    encoded: bytes = b""
    """What `record` made; empty before."""
    offset: int = 0
    """Counts what this broker processed of the topic; 0 when it is not counted."""
    notices: bytes = NO_NOTICES
    """What notifications it caused here, encoded."""
    envelope: bytes = b""
    """What it says of itself, see `wire.envelope`; empty: nothing."""
    urgency: int = 0
    """Of its class, as this server decided: what is more urgent overtakes the rest."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publication) and (
            self.topic == other.topic and self.record() == other.record()
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def published_at_s(self) -> float:
        """When it was published, in seconds of Unix time."""
        return self.published_us / 1e6

    @property
    def received_at_s(self) -> float:
        """When the publisher's home got it, in seconds of Unix time."""
        return self.received_us / 1e6

    def note_arrival(self, now_us: int, latest_us: int) -> None:
        """Note that it has come from another server, by this one's clock and by the site's time.

        Its home cannot have got it later; a home may lie, or not know the time yet.
        """
        self.arrived_us = now_us
        if self.received_us > latest_us:
            self.received_us, self.encoded = latest_us, b""

    def record(self) -> bytes:
        """Return its bytes, made at the first call."""
        if not self.encoded:
            publisher, envelope = self.publisher.encode(), self.envelope
            self.encoded = b"".join(
                (
                    _pack(
                        self.origin | _ENVELOPED if envelope else self.origin,
                        len(publisher),
                        self.epoch,
                        self.sequence,
                        self.published_us,
                        self.received_us,
                        self.x_km,
                        self.y_km,
                    ),
                    publisher,
                    _LENGTH.pack(len(envelope)) + envelope if envelope else b"",
                    self.payload,
                )
            )
        return self.encoded


def decode_record(topic: str, record: bytes, origin: Origin | None = None) -> Publication:
    """Return the publication of a record.

    Parameters
    ----------
    origin
        How it came here; None: as the record says.

    Raises
    ------
    ValueError
        When the bytes are not a record.
    """
    try:
        said, length, epoch, sequence, published, received, x, y = _unpack_from(record)
    except error as problem:
        raise ValueError(f"{len(record)} bytes are not a record") from problem
    end = start = _SIZE + length
    envelope, mark = b"", said & _ENVELOPED
    if mark:
        said -= mark
        if len(record) >= start + _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(record, start)[0]
            envelope = record[start + _LENGTH.size : end]
        if not envelope:
            raise ValueError("a record has no envelope where it says so")
    if len(record) < end or said >= len(_ORIGINS):
        raise ValueError("a record is cut short or of an unknown origin")
    if published >= _LARGEST or received >= _LARGEST:
        raise ValueError("a record has a time out of range")
    # not a number: it has no place
    if x > FURTHEST_KM or x < -FURTHEST_KM or y > FURTHEST_KM or y < -FURTHEST_KM:
        raise ValueError("a record has a place out of range")
    if origin is not None and origin != said:
        said = origin
        record = bytes((origin | mark,)) + record[1:]
    return Publication(
        topic,
        record[_SIZE:start].decode(),
        epoch,
        sequence,
        published,
        received,
        x,
        y,
        record[end:],
        _ORIGINS[said],
        encoded=record,
        envelope=envelope,
    )

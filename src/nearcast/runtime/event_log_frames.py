"""What a server and the process that writes its event log say to each other, as MessagePack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.kafka_sink import SinkCounts
from nearcast.runtime.pipe_frames import pack_frame

__all__ = [
    "Counts",
    "EventLogSettings",
    "Flush",
    "Rows",
    "decode_command",
    "decode_counts",
    "frame",
]


class EventLogSettings(msgspec.Struct, frozen=True):
    """How an event log is written."""

    folder: str
    server: str
    segment_rows: int = 100_000
    segment_s: float = 10.0
    """A file ends after this many rows or seconds; a row is in a file at the latest then."""
    keep_mb: float | None = None
    keep_days: float | None = None
    """How much of this server's files stays, and for how long; None: all, for ever."""
    files: bool = True
    """Whether there are files at all; else the rows go to Kafka only."""
    kafka: KafkaSettings | None = None
    backlog: str = ""
    """Folder of what waits for Kafka."""


class _Command(msgspec.Struct, array_like=True, tag=True):
    pass


class Rows(_Command):
    """To the process: rows of both tables, as plain tuples."""

    publications: Sequence[tuple[Any, ...]]
    notifications: Sequence[tuple[Any, ...]]


class Flush(_Command):
    """To the process: end the segments and write them; `Counts.flushes` tells when."""


class Counts(msgspec.Struct, array_like=True):
    """From the process: what became of the rows, ever."""

    written: int = 0
    dropped: int = 0
    segments: int = 0
    errors: int = 0
    """Times that the disk refused."""
    last_error: str | None = None
    """Why it refuses; None while it works."""
    removed: int = 0
    """Files that were removed, because there were too many or they were too old."""
    flushes: int = 0
    """Flushes that are done."""
    kafka: SinkCounts = msgspec.field(default_factory=SinkCounts)


_encode = msgspec.msgpack.Encoder().encode
_commands: msgspec.msgpack.Decoder[Rows | Flush] = msgspec.msgpack.Decoder(Rows | Flush)
_counts: msgspec.msgpack.Decoder[Counts] = msgspec.msgpack.Decoder(Counts)
decode_command = _commands.decode
decode_counts = _counts.decode


def frame(message: Rows | Flush | Counts) -> bytes:
    """Return the bytes of a message.

    Raises
    ------
    ValueError, OverflowError
        When a row has a text or a number that no column holds.
    """
    return pack_frame(_encode(message))

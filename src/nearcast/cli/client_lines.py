"""What ``nearcast client`` reads and prints: one JSON object per line."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.sdk import Notification

__all__ = ["PublicationLine", "ReportLine", "notification_line", "print_line", "read_batches"]

Line = TypeVar("Line", bound=msgspec.Struct)

_CHUNK_BYTES = 1 << 16
_LINE_LIMIT_BYTES = 1 << 20
_SHOWN = (
    "sequence",
    "durable",
    "part",
    "is_copy",
    "is_late",
    "publish_leg_ms",
    "processing_ms",
    "between_ms",
    "notify_leg_ms",
    "total_ms",
)


class PublicationLine(msgspec.Struct, forbid_unknown_fields=True):
    """One publication; a text is sent as it is, any other JSON as JSON."""

    topic: str | None = None
    payload: Any = msgspec.UNSET
    payload_base64: str | None = None
    x_km: float | None = None
    y_km: float | None = None

    def data(self) -> bytes:
        """Return the payload's bytes."""
        if (self.payload is msgspec.UNSET) == (self.payload_base64 is None):
            raise ConfigError("needs either payload or payload_base64")
        if self.payload_base64 is not None:
            try:
                return base64.b64decode(self.payload_base64, validate=True)
            except (binascii.Error, ValueError):
                raise ConfigError("payload_base64 is no base64") from None
        if isinstance(self.payload, str):
            return self.payload.encode()
        return msgspec.json.encode(self.payload)

    def position(self) -> tuple[float, float] | None:
        """Return where it happened."""
        if (self.x_km is None) != (self.y_km is None):
            raise ConfigError("needs both x_km and y_km or none of them")
        return None if self.x_km is None or self.y_km is None else (self.x_km, self.y_km)


class ReportLine(msgspec.Struct, forbid_unknown_fields=True):
    """Where a client is and how it moves."""

    x_km: float
    y_km: float
    direction_deg: float = 0.0
    speed_mps: float = 0.0


def read_batches(kind: type[Line]) -> Iterator[list[tuple[int, Line]]]:
    """Yield the lines of standard input with their numbers, all that are there at a time.

    ConfigError names a bad line, after those before it were yielded.
    """
    stdin: Any = sys.stdin.buffer
    decode = msgspec.json.Decoder(kind).decode
    number, rest = 0, b""
    while chunk := stdin.read1(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from _decode_lines(lines, number, decode)
        number += len(lines)
        if len(rest) > _LINE_LIMIT_BYTES:
            raise ConfigError(f"line {number + 1}: longer than {_LINE_LIMIT_BYTES} bytes")
    yield from _decode_lines([rest], number, decode)


def _decode_lines(
    lines: list[bytes], before: int, decode: Callable[[bytes], Line]
) -> Iterator[list[tuple[int, Line]]]:
    batch = []
    for number, line in enumerate(lines, start=before + 1):
        if not line.strip():
            continue
        try:
            batch.append((number, decode(line)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield batch
            raise ConfigError(f"line {number}: {error}") from None
    yield batch


def notification_line(notification: Notification) -> dict[str, Any]:
    """Return a notification for JSON: the payload as text, or as base64 when it is not UTF-8."""
    payload = notification.payload
    try:
        shown = {"payload": payload.decode()}
    except UnicodeDecodeError:
        shown = {"payload_base64": base64.b64encode(payload).decode()}
    head = {"topic": notification.topic, "publisher": notification.publisher}
    return head | shown | {name: getattr(notification, name) for name in _SHOWN}


def print_line(values: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once."""
    click.echo(json.dumps(values, ensure_ascii=False))

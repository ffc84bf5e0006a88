"""Publications, reports and notifications as JSON lines, for programs in any language."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from nearcast.errors import ConfigError
from nearcast.wire.notification import Notification

__all__ = ["PublicationLine", "ReportLine", "notification_line"]

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
    lon: float | None = None
    lat: float | None = None
    attributes: dict[str, Any] | None = None
    area: str | dict[str, Any] | None = None
    valid_s: float | None = None
    message_class: str | None = None
    durable: bool | None = None

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

    def position(self, degrees: bool = False) -> tuple[float, float] | None:
        """Return where it happened, as its client counts."""
        return _position(self, degrees)


class ReportLine(msgspec.Struct, forbid_unknown_fields=True):
    """Where a client is and how it moves."""

    x_km: float | None = None
    y_km: float | None = None
    direction_deg: float = 0.0
    speed_mps: float = 0.0
    lon: float | None = None
    lat: float | None = None

    def position(self, degrees: bool = False) -> tuple[float, float]:
        """Return where it is, as the client counts."""
        place = _position(self, degrees)
        if place is None:
            raise ConfigError("needs lon and lat" if degrees else "needs x_km and y_km")
        return place


def _position(line: PublicationLine | ReportLine, degrees: bool) -> tuple[float, float] | None:
    """Return the position of a line in degrees or in km; ConfigError when it has the other."""
    own, other = ("lon", "lat"), ("x_km", "y_km")
    if not degrees:
        own, other = other, own
    x, y = (getattr(line, name) for name in own)
    if any(getattr(line, name) is not None for name in other):
        counts = "degrees" if degrees else "km, not in degrees"
        raise ConfigError(f"{' and '.join(other)}: this client counts in {counts}")
    if (x is None) != (y is None):
        raise ConfigError(f"needs both {' and '.join(own)} or none of them")
    return None if x is None else (x, y)


def notification_line(notification: Notification) -> dict[str, Any]:
    """Return a notification for JSON: the payload as text, or as base64 when it is not UTF-8."""
    payload = notification.payload
    try:
        shown: dict[str, Any] = {"payload": payload.decode()}
    except UnicodeDecodeError:
        shown = {"payload_base64": base64.b64encode(payload).decode()}
    head = {"topic": notification.topic, "publisher": notification.publisher}
    if notification.attributes:
        shown["attributes"] = dict(notification.attributes)
    return head | shown | {name: getattr(notification, name) for name in _SHOWN}

"""A notification as applications see it, with the delay of each stage on its way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nearcast.wire.actions import Notified

__all__ = ["Notification", "read_notification"]


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification. Delays are None where a stage was not measured.

    The legs compare clocks of two machines: they are as true as these clocks agree.
    """

    topic: str
    publisher: str
    payload: bytes
    sequence: int
    """Of the publication that caused it."""
    durable: bool
    """Whether that publication was durable."""
    part: int
    """Tells several notifications about one publication apart."""
    is_copy: bool
    """It was sent before and is too old to know whether it was delivered."""
    publish_leg_ms: float | None
    """From the publisher to its server."""
    processing_ms: float | None
    """In the broker, waiting included."""
    between_ms: float | None
    """Between servers, on the way to the broker and to the subscriber's home."""
    notify_leg_ms: float | None
    """From the subscriber's home to here."""
    total_ms: float | None
    """From the publisher to here."""

    @property
    def text(self) -> str:
        """The payload as UTF-8; what is none is replaced by question marks."""
        return self.payload.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """Return the payload read as JSON; ValueError when it is none."""
        return json.loads(self.payload)


def read_notification(event: Notified, arrived_s: float) -> Notification:
    """Return the notification of a session's event that arrived at a time."""
    notify = event.notification
    arrived_us = round(arrived_s * 1e6)
    processing_us = notify.processing_us
    is_timed = bool(notify.received_us and notify.notified_us)
    return Notification(
        topic=notify.topic,
        publisher=notify.publisher,
        payload=notify.payload,
        sequence=notify.sequence,
        durable=notify.durable,
        part=notify.part,
        is_copy=event.is_copy,
        publish_leg_ms=_elapsed_ms(notify.published_us, notify.received_us),
        processing_ms=processing_us / 1000 if is_timed else None,
        between_ms=_elapsed_ms(notify.received_us + processing_us, notify.notified_us)
        if is_timed
        else None,
        notify_leg_ms=_elapsed_ms(notify.notified_us, arrived_us),
        total_ms=_elapsed_ms(notify.published_us, arrived_us),
    )


def _elapsed_ms(start_us: int, end_us: int) -> float | None:
    """Return the time between two stamps; a stamp of 0 was never taken."""
    return (end_us - start_us) / 1000 if start_us and end_us else None

"""A notification as the subscriber gets it, with the delay of each stage on its way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from nearcast.wire.envelope import open_envelope

__all__ = ["Notification"]


class Notification(msgspec.Struct, frozen=True, gc=False):
    """One notification; the first fields are those of `Notify`, in the same order.

    Delays are worked out when they are asked for, and None where a stage was not measured. The
    legs compare clocks of two machines: they are as true as these clocks agree.
    """

    topic: str
    publisher: str
    epoch: int
    sequence: int
    """Of the publication that caused it."""
    durable: bool
    """Whether that publication was durable."""
    part: int
    """Tells several notifications about one publication apart."""
    payload: bytes
    published_us: int = 0
    received_us: int = 0
    processed_us: int = 0
    notified_us: int = 0
    processing_us: int = 0
    broker: str = ""
    """The server that processed the publication; empty when that was not durable."""
    offset: int = 0
    """Its number there: rises with the publications of the topic that the broker processed."""
    previous: int = 0
    """The last sequence before that all subscribers were told of, or that matched this one's
    filter; 0: nobody knows."""
    envelope: bytes = b""
    """What the message says of itself, encoded: see `attributes`."""
    arrived_us: int = 0
    """When it arrived here, by the clock of this process."""
    is_copy: bool = False
    """It was sent before and is too old to know whether it was delivered."""
    is_late: bool = False
    """A later one of its publisher and topic was delivered before."""

    @property
    def attributes(self) -> Mapping[str, str | bool | int | float]:
        """Names and values that its publisher, or the topic's processor, gave it."""
        return open_envelope(self.envelope).attributes

    @property
    def message_class(self) -> str:
        """The class that its publisher gave it; empty: none."""
        return open_envelope(self.envelope).message_class

    @property
    def text(self) -> str:
        """The payload as UTF-8; bytes that are not UTF-8 are replaced by question marks."""
        return self.payload.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """Return the payload read as JSON; ValueError when it is not JSON."""
        return json.loads(self.payload)

    @property
    def publish_leg_ms(self) -> float | None:
        """From the publisher to its server."""
        return _elapsed_ms(self.published_us, self.received_us)

    @property
    def processing_ms(self) -> float | None:
        """In the broker, waiting included."""
        return self.processing_us / 1000 if self.received_us and self.notified_us else None

    @property
    def between_ms(self) -> float | None:
        """Between servers, on the way to the broker and to the subscriber's home."""
        if not self.received_us or not self.notified_us:
            return None
        return (self.notified_us - self.received_us - self.processing_us) / 1000

    @property
    def notify_leg_ms(self) -> float | None:
        """From the subscriber's home to here."""
        return _elapsed_ms(self.notified_us, self.arrived_us)

    @property
    def total_ms(self) -> float | None:
        """From the publisher to here."""
        return _elapsed_ms(self.published_us, self.arrived_us)


def _elapsed_ms(start_us: int, end_us: int) -> float | None:
    """Return the time between two stamps; a stamp of 0 was never taken."""
    return (end_us - start_us) / 1000 if start_us and end_us else None

"""One numbered stream of messages to one server: settings, frames, and what waits on either side."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["NEVER", "PeerFrame", "PeerSettings", "PeerStream", "decode_frame", "encode_frame"]

NEVER = float("inf")
_Number = Annotated[int, Meta(ge=0, le=1 << 62)]
"""Far from where an encoder would fail, so that no frame can bring a counter there."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Limits and timers of the channels."""

    first_retry_s: float = 1.0
    least_retry_s: float = 0.1
    longest_retry_s: float = 1.0
    """Well below `takeover_s`: a server that is back is asked before it is given up."""
    ack_delay_s: float = 0.02
    """How long an acknowledgement waits for something that it can travel with."""
    frame_bytes: int = 256 << 10
    window: int = 2_048
    """Ordinary messages in flight to one server."""
    queue_limit: int = 50_000
    """Messages that wait for a server that is away; beyond it the oldest are dropped."""
    queue_bytes: int = 64 << 20
    """The same in bytes, for ordinary and for bulk messages each."""
    message_bytes: int = 60 << 20
    """Larger messages are dropped at once: no link carries them."""
    bulk_frame_bytes: int = 64 << 10
    """Small, so that an ordinary message waits for little of a large transfer."""
    bulk_window_bytes: int = 256 << 10
    """Bulk messages in flight to one server; one is always allowed."""
    late_s: float = 30.0
    """How long frames of a server's last incarnation may be under way."""


class PeerFrame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What travels between two servers at a time."""

    incarnation: _Number
    """Of the sender; a random number that it draws when it starts."""
    is_bulk: bool
    """Which of the two streams the numbers belong to."""
    base: _Number
    """Number of the first message that the receiver has not acknowledged."""
    first: _Number
    """Number of the first message in this frame."""
    messages: list[bytes]
    ack_incarnation: _Number
    acked: _Number
    """Messages of the other side, in its incarnation `ack_incarnation`, that were taken."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PeerFrame)


def encode_frame(frame: PeerFrame) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def decode_frame(data: bytes) -> PeerFrame | None:
    """Return the frame of these bytes; None when they are not a frame."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


class PeerStream:
    """What is under way to one server, and how much has come from it, on one stream."""

    __slots__ = (
        "ack_at",
        "base",
        "behind",
        "in_flight_bytes",
        "is_bulk",
        "resend_at",
        "retry_s",
        "round_trip_s",
        "sent",
        "server",
        "taken",
        "timed",
        "timed_at",
        "urgent",
        "waiting",
        "waiting_bytes",
        "waits_since",
    )

    def __init__(self, server: str, retry_s: float, *, is_bulk: bool) -> None:
        self.server, self.is_bulk, self.retry_s = server, is_bulk, retry_s
        self.waiting: deque[bytes] = deque()
        """Not acknowledged; the first `sent` of them were sent."""
        self.waiting_bytes = self.in_flight_bytes = self.sent = 0
        self.urgent = 0
        """How many of those that were not sent, the first ones, are urgent."""
        self.base = 1
        """Number of the first message that waits."""
        self.behind = 0
        """Up to this number all may have to be sent again."""
        self.resend_at = self.ack_at = NEVER
        self.timed, self.timed_at = 0, 0.0
        """Number of the message that measures the round trip, 0 when there is none."""
        self.round_trip_s: float | None = None
        self.waits_since = 0.0
        """When something was sent or acknowledged last, while not all is."""
        self.taken = 0
        """Messages of the other side that were taken."""

    def put_urgent(self, message: bytes) -> None:
        """Let a message wait behind what was sent and other urgent ones only."""
        self.waiting.insert(self.sent + self.urgent, message)
        self.urgent += 1

    def note_sent(self, count: int) -> None:
        """Note that `count` more were sent: urgent ones first."""
        self.sent += count
        self.urgent = max(0, self.urgent - count)

    def take(self, first: int, messages: list[bytes]) -> list[bytes]:
        """Return the messages that are next in order."""
        known = self.taken + 1 - first
        if known < 0:
            return []  # a frame before it was lost; the sender repeats both
        fresh = messages[known:] if known else messages
        self.taken += len(fresh)
        return fresh

    def drop_oldest(self, count: int) -> None:
        """Forget the messages that wait longest: acknowledged, or too many."""
        waiting = self.waiting
        for _ in range(count):
            size = len(waiting.popleft())
            self.waiting_bytes -= size
            if self.sent:
                self.sent -= 1
                self.in_flight_bytes -= size
            elif self.urgent:
                self.urgent -= 1
        self.base += count

    def go_back(self, now: float) -> None:
        """Send all that was sent again: the other side began anew."""
        self.taken, self.ack_at = 0, NEVER
        if self.sent:
            self.behind = self.base + self.sent - 1
            self.timed, self.resend_at = 0, now

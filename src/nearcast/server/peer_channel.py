"""The channel to one server: settings, frames, and what waits on either side."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

__all__ = ["NEVER", "Frame", "MeshSettings", "PeerChannel", "decode_frame", "encode_frame"]

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """Limits and timers of the channels."""

    first_retry_s: float = 1.0
    least_retry_s: float = 0.2
    longest_retry_s: float = 5.0
    ack_delay_s: float = 0.02
    """How long an acknowledgement waits for something that it can travel with."""
    frame_bytes: int = 256 << 10
    window: int = 2_048
    """Messages in flight to one server."""
    queue_limit: int = 50_000
    """Messages that wait for a server that is away; beyond it the oldest are dropped."""
    queue_bytes: int = 64 << 20
    """The same in bytes."""
    early_frames: int = 32
    """Frames that wait for one before them."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """What travels between two servers at a time."""

    life: int
    """Rises with each start of the sender."""
    base: int
    """Number of the first message that the receiver has not acknowledged."""
    first: int
    """Number of the first message in this frame."""
    messages: tuple[bytes, ...]
    ack_life: int
    acked: int
    """Messages of the other side, in its life `ack_life`, that were taken."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def decode_frame(data: bytes) -> Frame | None:
    """Return the frame of these bytes; None when they are none."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


@dataclass(slots=True)
class PeerChannel:
    """What is under way to one server and what has come from it."""

    retry_s: float
    waiting: deque[bytes] = field(default_factory=deque)
    """Not acknowledged; the first `sent` of them were sent."""
    waiting_bytes: int = 0
    sent: int = 0
    base: int = 1
    """Number of the first message that waits."""
    behind: int = 0
    """Up to this number all may have to be sent again."""
    has_dropped: bool = False
    """Whether messages were dropped since the other side was last heard."""
    resend_at: float = NEVER
    timed: int = 0
    """Number of the message that measures the round trip; 0: none does."""
    timed_at: float = 0.0
    round_trip_s: float | None = None
    peer_life: int = 0
    taken: int = 0
    early: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Frames that came before others, by their first numbers."""
    ack_at: float = NEVER

    def take(self, first: int, messages: tuple[bytes, ...], early_frames: int) -> list[bytes]:
        """Return the messages that are next in order, with those that waited for them."""
        if first > self.taken + 1:
            if len(self.early) < early_frames:
                self.early[first] = messages
            return []  # the sender repeats what is missing
        fresh = list(messages[self.taken + 1 - first :])
        self.taken += len(fresh)
        for start in sorted(self.early):
            if start > self.taken + 1:
                break
            later = self.early.pop(start)[self.taken + 1 - start :]
            fresh += later
            self.taken += len(later)
        return fresh

    def drop_oldest(self) -> None:
        """Forget the message that waits longest."""
        self.waiting_bytes -= len(self.waiting.popleft())
        self.base += 1
        self.sent = max(0, self.sent - 1)

    def go_back(self, now: float) -> None:
        """Send all that was sent again."""
        if self.sent:
            self.behind = self.base + self.sent - 1
            self.timed, self.resend_at = 0, now

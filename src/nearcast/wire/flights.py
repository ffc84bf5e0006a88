"""Notifications on their way to clients: packed into datagrams once for all, and unconfirmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from nearcast.wire.channel import Channel
from nearcast.wire.codec import COPY
from nearcast.wire.framing import pack
from nearcast.wire.hot_frames import NOTIFY
from nearcast.wire.settings import Address

__all__ = ["Flight", "Packet", "UnsealedDatagram", "is_notification", "pack_frames"]


class Flight(NamedTuple):
    """The notifications of one datagram, until the client says that it arrived.

    Sessions that were sent the same notifications in one pass share one.
    """

    frames: Sequence[bytes]
    sent_at: float
    """In this datagram; minus infinity: known to be missing."""
    wait_s: float
    """Before they are sent again; 0 for those that were sent once: as long as the session waits."""
    since: float
    """When they were sent for the first time, or before."""


class UnsealedDatagram(msgspec.Struct, frozen=True, gc=False):
    """A datagram that is sealed when it is sent, so that the first of many need not wait."""

    address: Address
    channel: Channel
    counter: int
    payload: bytes

    @property
    def data(self) -> bytes:
        """Its bytes; the same each time."""
        return self.channel.seal_as(self.counter, self.payload)


class Packet(NamedTuple):
    """What one datagram will hold."""

    payload: bytes
    flight: Flight | None
    """Its notifications, if there are any."""


def is_notification(frame: bytes) -> bool:
    """Tell whether a frame is a notification, also one that is sent again."""
    return frame[0] & ~COPY == NOTIFY


def pack_frames(
    frames: Sequence[bytes], room: int, now: float, since: float | None = None
) -> list[Packet]:
    """Return the packets that hold frames, in their order, each of at most `room` bytes.

    Parameters
    ----------
    since
        When the first of them could have been sent, if that was before now.
    """
    packets = []
    since = now if since is None else since
    for group in pack(frames, room):
        told = [frame for frame in group if is_notification(frame)]
        flight = Flight(told, now, 0.0, since) if told else None
        packets.append(Packet(b"".join(group), flight))
    return packets

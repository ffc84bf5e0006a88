"""Which members of a group a datagram is for: a bitmap of their slots, packed to fit beside it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from nearcast.wire.codec import Refused

__all__ = [
    "AUDIENCE_BYTES",
    "NOBODY",
    "Audience",
    "bitmap_of",
    "read_audience",
    "split_audience",
]

_HEAD = Struct(">BHI")
"""Whether the bitmap is compressed, its bytes as they are sent, and the first byte's place."""
AUDIENCE_BYTES = _HEAD.size
"""Beside the bitmap."""
_MOST_BYTES = 65_536
"""Of a bitmap: 524,288 slots, more than a server has sessions."""
NOBODY = _HEAD.pack(False, 0, 0)
"""The bytes of an audience without members."""


class Audience(NamedTuple):
    """Some of the members: slot 8 * `start` + n is bit n of the bitmap."""

    start: int
    bitmap: bytes

    def __contains__(self, slot: object) -> bool:
        assert isinstance(slot, int)
        place = (slot >> 3) - self.start
        return 0 <= place < len(self.bitmap) and bool(self.bitmap[place] >> (slot & 7) & 1)


def bitmap_of(slots: Iterable[int], size: int) -> bytes:
    """Return the bitmap of slots below `size`."""
    bits = bytearray((size + 7) >> 3)
    for slot in slots:
        bits[slot >> 3] |= 1 << (slot & 7)
    return bytes(bits)


def split_audience(bitmap: bytes, room: int) -> Iterator[tuple[Audience, bytes]]:
    """Yield parts of an audience that fit into `room` bytes each, with their bytes.

    Together they are the whole bitmap; parts in which nobody is are left out.

    Parameters
    ----------
    room
        At least `AUDIENCE_BYTES` and 1.
    """
    parts = [(0, len(bitmap))]
    while parts:
        start, end = parts.pop()
        part = bitmap[start:end].rstrip(b"\0")
        end = start + len(part)
        part = part.lstrip(b"\0")
        if not part:
            continue
        start = end - len(part)
        packed = zlib.compress(part, 1)
        is_packed = len(packed) < len(part)
        sent = packed if is_packed else part
        if AUDIENCE_BYTES + len(sent) <= room:
            yield Audience(start, part), _HEAD.pack(is_packed, len(sent), start) + sent
        else:
            middle = (start + end) // 2
            parts += [(middle, end), (start, middle)]


def read_audience(body: bytes) -> tuple[Audience, bytes]:
    """Return the audience that a body begins with, and what follows it."""
    if len(body) < AUDIENCE_BYTES:
        raise Refused("group_malformed")
    is_packed, size, start = _HEAD.unpack_from(body)
    end = AUDIENCE_BYTES + size
    if end > len(body):
        raise Refused("group_malformed")
    bitmap = body[AUDIENCE_BYTES:end]
    if is_packed:
        try:
            bitmap = zlib.decompressobj().decompress(bitmap, _MOST_BYTES)
        except zlib.error:
            raise Refused("group_malformed") from None
    return Audience(start, bitmap), body[end:]

"""Frames: how changes become bytes that can be checked, skipped and found again.

A frame is ``marker, crc32, length, kind, body``. The marker is drawn for each segment. It is where
the checksum starts from, so that what a recycled file held before is never taken for new; and
after damage the next frame is found by searching for it. Nobody outside knows it, so no payload
can pretend to be a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from nearcast.errors import SpoolError
from nearcast.spool.changes import LiveState, Position, TopicChange

__all__ = [
    "FrameKind",
    "SpoolFrame",
    "apply_frame",
    "encode_changes",
    "encode_commit",
    "read_commit",
    "scan",
]

_HEAD = Struct("<II")  # marker, checksum of all that follows
_TAIL = Struct("<IB")  # length of the body, kind
_HEADER = Struct("<IIIB")  # both
_NAME = Struct("<H")
_LIVE = Struct("<IQI")  # records alive, highest offset, positions that follow
_POSITION = Struct("<HQQ")  # length of the publisher's name, epoch, sequence
_COMMIT = Struct("<Q")
_POSITIONS_PER_FRAME = 500  # damage to one frame of a snapshot stays small


class FrameKind:
    """What a frame holds: plain numbers, because enums cost more than the checksum does."""

    GAP: Final = 0
    """Bytes between intact frames that are not a frame; found, never written."""
    RECORD: Final = 1
    POSITIONS: Final = 2
    STATE: Final = 3
    ENDED: Final = 4
    COMMIT: Final = 5
    ASIDE: Final = 6
    """A state of a processor that is set aside."""
    SNAPSHOT: Final = 0x80
    """Added to the others in a snapshot."""


class SpoolFrame(NamedTuple):
    """A frame that was found intact, or a gap."""

    offset: int
    end: int
    kind: int
    body: bytes


def _frame(marker: int, kind: int, body: bytes) -> bytes:
    tail = _TAIL.pack(len(body), kind) + body
    return _HEAD.pack(marker, crc32(tail, marker)) + tail


def encode_commit(marker: int, round_start: int, *, snapshot: bool = False) -> bytes:
    """Return a commit mark: all before `round_start` was synced before this was written."""
    kind = FrameKind.COMMIT | (FrameKind.SNAPSHOT if snapshot else 0)
    return _frame(marker, kind, _COMMIT.pack(round_start))


def read_commit(body: bytes) -> int:
    """Return where the round of a commit mark begins."""
    return int(_COMMIT.unpack(body)[0])


def encode_changes(
    marker: int, changes: Iterable[TopicChange], *, snapshot: bool = False
) -> Iterator[bytes]:
    """Return the frames of a group, without its commit mark."""
    flag = FrameKind.SNAPSHOT if snapshot else 0
    pack_head, pack_tail = _HEAD.pack, _TAIL.pack
    record_kind = FrameKind.RECORD | flag
    for change in changes:
        prefix = _name_bytes(change.topic)
        if change.ended:
            yield _frame(marker, FrameKind.ENDED | flag, prefix)
            continue
        for record in change.records:  # _frame by hand: this loop is the hot one
            tail = pack_tail(len(prefix) + len(record), record_kind) + prefix + record
            yield pack_head(marker, crc32(tail, marker)) + tail
        positions = change.positions
        for first in range(0, len(positions) or 1, _POSITIONS_PER_FRAME):
            some = positions[first : first + _POSITIONS_PER_FRAME]
            head = _LIVE.pack(change.live, change.end, len(some))
            body = prefix + head + b"".join(map(_position, some))
            yield _frame(marker, FrameKind.POSITIONS | flag, body)
        if change.state is not None:
            yield _frame(marker, FrameKind.STATE | flag, prefix + change.state)
        if change.aside is not None:
            yield _frame(marker, FrameKind.ASIDE | flag, prefix + change.aside)


@lru_cache(maxsize=4096)
def _name_bytes(topic: str) -> bytes:
    name = topic.encode()
    return _NAME.pack(len(name)) + name


def _position(position: Position) -> bytes:
    publisher, epoch, sequence = position
    name = publisher.encode()
    return _POSITION.pack(len(name), epoch, sequence) + name


def apply_frame(state: LiveState, frame: SpoolFrame) -> None:
    """Take over what an intact frame says; commit marks say nothing about the state.

    Raises
    ------
    SpoolError
        When it is of a kind that this version does not know.
    """
    _, _, kind, body = frame
    kind &= ~FrameKind.SNAPSHOT
    if kind == FrameKind.COMMIT:
        return
    (length,) = _NAME.unpack_from(body)
    at = _NAME.size + length
    name = body[_NAME.size : at].decode()
    if kind == FrameKind.RECORD:
        state.topic(name).records.append(body[at:])
    elif kind == FrameKind.STATE:
        state.topic(name).state = body[at:]
    elif kind == FrameKind.ASIDE:
        state.topic(name).aside = body[at:]
    elif kind == FrameKind.ENDED:
        state.topics.pop(name, None)
    elif kind == FrameKind.POSITIONS:
        live, end, count = _LIVE.unpack_from(body, at)
        topic = state.topic(name)
        topic.end = max(topic.end, end)
        _read_positions(topic.positions, body, at + _LIVE.size, count)
        state.trim(name, live)
    else:
        raise SpoolError(f"frames of kind {kind} are of a newer nearcast; update nearcast")


def _read_positions(into: dict[str, Position], body: bytes, at: int, count: int) -> None:
    for _ in range(count):
        length, epoch, sequence = _POSITION.unpack_from(body, at)
        at += _POSITION.size
        publisher = body[at : at + length].decode()
        at += length
        if sequence or epoch:
            into[publisher] = Position(publisher, epoch, sequence)
        else:
            into.pop(publisher, None)


def scan(data: bytes, marker: int) -> Iterator[SpoolFrame]:
    """Return the intact frames of a segment in order, and the gaps between them.

    What follows the last intact frame is not a gap: nothing shows that it was ever written.
    """
    needle, view, size = marker.to_bytes(4, "little"), memoryview(data), len(data)
    at = expected = 0
    while at >= 0 and at + _HEADER.size <= size:
        found, checksum, length, kind = _HEADER.unpack_from(data, at)
        end = at + _HEADER.size + length
        if (
            found == marker
            and end <= size
            and crc32(view[at + _HEAD.size : end], marker) == checksum
        ):
            if at > expected:
                yield SpoolFrame(expected, at, FrameKind.GAP, b"")
            yield SpoolFrame(at, end, kind, data[at + _HEADER.size : end])
            at = expected = end
        else:
            at = data.find(needle, at + 1)

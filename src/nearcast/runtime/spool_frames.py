"""What a server and the process that writes its spool say to each other, as MessagePack.

The server sends lists of groups, and nothing else; an end of the stream ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nearcast.runtime.pipe_frames import pack_frame
from nearcast.spool.changes import Group, LiveState, TopicChange
from nearcast.spool.recovery import Cut, Damage, Recovery

__all__ = [
    "Answer",
    "Committed",
    "Full",
    "Lost",
    "Opened",
    "Piece",
    "Refused",
    "decode_answer",
    "decode_groups",
    "frame",
    "groups_frame",
    "recovery_frames",
]

_PIECE_BYTES = 1 << 20
_PIECE_POSITIONS = 10_000


class _Answer(msgspec.Struct, array_like=True, tag=True):
    pass


class Piece(_Answer):
    """Part of what recovery found alive: a change to be applied to the parts before it."""

    change: TopicChange


class Opened(_Answer):
    """The end of the recovery: what it found besides."""

    damages: list[Damage]
    cut: Cut | None
    segments: list[str]
    last_sequence: int
    bytes_scanned: int
    foreign: list[str]

    def recovery(self, state: LiveState) -> Recovery:
        """Return the recovery of which this is the rest."""
        return Recovery(
            state,
            self.damages,
            self.cut,
            self.segments,
            self.last_sequence,
            self.bytes_scanned,
            self.foreign,
        )


class Refused(_Answer):
    """The spool cannot be opened."""

    reason: str
    is_full: bool
    """For lack of room on its disk."""


class Committed(_Answer):
    """The oldest `groups` are durable; the round took `sync_s`."""

    groups: int
    sync_s: float


class Full(_Answer):
    """The disk has no room; it is tried again."""


class Lost(_Answer):
    """The spool is dead until it is opened again."""

    reason: str


Answer = Piece | Opened | Refused | Committed | Full | Lost

_encode = msgspec.msgpack.Encoder().encode
_groups: msgspec.msgpack.Decoder[list[Group]] = msgspec.msgpack.Decoder(list[Group])
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
decode_groups = _groups.decode
decode_answer = _answers.decode


def groups_frame(groups: Sequence[Group]) -> bytes:
    """Return what asks for groups to be made durable."""
    return pack_frame(_encode(groups))


def frame(answer: Answer) -> bytes:
    """Return the bytes of an answer."""
    return pack_frame(_encode(answer))


def recovery_frames(recovery: Recovery) -> Iterator[bytes]:
    """Return what recovery found, in pieces that are made when they are asked for."""
    for change in recovery.state.changes():
        for piece in _pieces(change):
            yield frame(Piece(piece))
    yield frame(
        Opened(
            recovery.damages,
            recovery.cut,
            recovery.segments,
            recovery.last_sequence,
            recovery.bytes_scanned,
            recovery.foreign,
        )
    )


def _pieces(change: TopicChange) -> Iterator[TopicChange]:
    """Cut a change of a snapshot into smaller ones with the same effect."""
    records: list[bytes] = []
    size_bytes = 0
    for record in change.records:
        records.append(record)
        size_bytes += len(record)
        if size_bytes >= _PIECE_BYTES:
            yield TopicChange(change.topic, tuple(records), change.live)
            records, size_bytes = [], 0
    state, aside = change.state, change.aside
    yield TopicChange(
        change.topic, tuple(records), change.live, state=state, end=change.end, aside=aside
    )
    for start in range(0, len(change.positions), _PIECE_POSITIONS):
        some = change.positions[start : start + _PIECE_POSITIONS]
        yield TopicChange(change.topic, live=change.live, positions=some)

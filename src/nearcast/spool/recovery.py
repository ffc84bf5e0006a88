"""Recovery: what is alive after a crash, read from the newest good snapshot and what follows it.

Two kinds of damage look alike and must not be mixed up. What was synced once and reads wrong now
has rotted: that frame is skipped and reported, its neighbours count. What was being written when
the power went is torn: from the first bad frame on nothing counts, because nothing of it was
acknowledged and its publishers will send it again. Commit marks tell the two apart: each says
where its round of writing began, and a round begins only after the sync of the one before. The
file of ends (`segments`) says it of the last round, once it was noted there: it also shows that the
end of a segment, or all of it, is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from nearcast.spool.changes import LiveState
from nearcast.spool.disk import Disk
from nearcast.spool.frames import FrameKind, SpoolFrame, apply_frame, read_commit, scan
from nearcast.spool.segments import DAMAGED_FILE, ENDS_FILE, SegmentName, read_ends, sort_files

__all__ = ["Cut", "Damage", "Recovery", "recover"]

_SNAPSHOT_END = FrameKind.SNAPSHOT | FrameKind.COMMIT
_COMMITS = (FrameKind.COMMIT, _SNAPSHOT_END)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that were durable once and are not readable now.

    Those that an earlier start found, and may not have told, are the segment `DAMAGED_FILE`.
    """

    segment: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The torn end of the newest segment: nothing of it was acknowledged."""

    segment: str
    offset: int
    size_bytes: int


@dataclass(slots=True)
class Recovery:
    """What recovery found."""

    state: LiveState = field(default_factory=LiveState)
    damages: list[Damage] = field(default_factory=list)
    """Rotten places in the segments that were read; a record that only an older snapshot still
    needed may have been recovered in spite of them."""
    cut: Cut | None = None
    segments: list[str] = field(default_factory=list)
    """The segments that the state was made from, oldest first."""
    last_sequence: int = 0
    """The highest segment number in use."""
    bytes_scanned: int = 0
    foreign: list[str] = field(default_factory=list)
    """Files in the folder that no spool has put there; they are left alone."""


def recover(disk: Disk) -> Recovery:
    """Return what is alive. Nothing is written: `SpoolLog.open` cuts the torn end.

    Raises
    ------
    SpoolError
        When something there is of a format that this version does not know.
    """
    recovery = Recovery()
    files = disk.names()
    names, recovery.foreign = sort_files(files)
    ends = read_ends(disk.read(ENDS_FILE)) if ENDS_FILE in files else {}
    recovery.last_sequence = max(one.sequence for one in (SegmentName(0, 0), *names, *ends))
    newest = names[-1].sequence if names else 0
    recovery.damages += [
        Damage(str(lost), 0, end) for lost, end in ends.items() if lost.sequence > newest
    ]
    if DAMAGED_FILE in files:
        recovery.damages.append(Damage(DAMAGED_FILE, 0, 0))
    stories: list[tuple[SegmentName, Iterator[SpoolFrame]]] = []
    for name in reversed(names):
        data = disk.read(str(name))
        recovery.bytes_scanned += len(data)
        items = scan(data, name.marker)
        good, head = _read_snapshot(items)
        stories.append((name, chain(head, items)))
        if good:
            break
    # without any good snapshot the oldest segment is the fullest story that is left
    for name, items in reversed(stories):
        _replay(
            recovery,
            str(name),
            items,
            use_snapshot=not recovery.segments,
            newest=name is names[-1],
            durable_end=ends.get(name, 0),
        )
        recovery.segments.append(str(name))
    return recovery


def _read_snapshot(items: Iterator[SpoolFrame]) -> tuple[bool, list[SpoolFrame]]:
    """Return whether a segment begins with a whole snapshot, and what was read to know."""
    head = []
    for item in items:
        head.append(item)
        if not item.kind & FrameKind.SNAPSHOT:
            return False, head
        if item.kind == _SNAPSHOT_END:
            return True, head
    return False, head


def _replay(
    recovery: Recovery,
    segment: str,
    items: Iterable[SpoolFrame],
    *,
    use_snapshot: bool,
    newest: bool,
    durable_end: int,
) -> None:
    reached = 0

    def take(found: Iterable[SpoolFrame]) -> None:
        nonlocal reached
        for item in found:
            reached = item.end
            if item.kind == FrameKind.GAP:
                recovery.damages.append(Damage(segment, item.offset, item.end - item.offset))
            elif use_snapshot or not item.kind & FrameKind.SNAPSHOT:
                apply_frame(recovery.state, item)

    last_round: list[SpoolFrame] = []
    round_start = 0
    for item in items:
        last_round.append(item)
        if item.kind in _COMMITS and (start := read_commit(item.body)) > round_start:
            round_start = start
            synced = bisect_right(last_round, start, key=attrgetter("end"))
            take(last_round[:synced])
            del last_round[:synced]
    synced = bisect_right(last_round, durable_end, key=attrgetter("end"))
    # what came before a newer segment was synced before that was begun
    whole = synced + _whole_groups(last_round[synced:]) if newest else len(last_round)
    take(last_round[:whole])
    if reached < durable_end:
        recovery.damages.append(Damage(segment, reached, durable_end - reached))
    if whole < len(last_round):
        offset = last_round[whole].offset
        recovery.cut = Cut(segment, offset, last_round[-1].end - offset)


def _whole_groups(items: Iterable[SpoolFrame]) -> int:
    """Return the number of items up to the last commit mark before anything is missing."""
    whole = 0
    for count, item in enumerate(items, start=1):
        if item.kind == FrameKind.GAP:
            break
        if item.kind in _COMMITS:
            whole = count
    return whole

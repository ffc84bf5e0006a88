"""The log: groups are queued, written and synced in rounds, and acknowledged after the sync."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from nearcast.errors import NO_ROOM, ConfigError, SpoolError, SpoolFullError, SpoolLostError
from nearcast.spool.changes import AFTER_DAMAGE, Group, LiveState
from nearcast.spool.disk import Disk
from nearcast.spool.frames import encode_changes, encode_commit
from nearcast.spool.recovery import Recovery, recover
from nearcast.spool.segments import (
    DAMAGED_BYTES,
    DAMAGED_FILE,
    ENDS_BYTES,
    ENDS_FILE,
    SPARE,
    SegmentName,
    encode_end,
    is_spare,
)

__all__ = ["SpoolLog", "SpoolSettings"]


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """How the log is cut into segments."""

    segment_bytes: int = 64 << 20
    """Size of a segment; it may be passed by the group that is written last."""
    snapshots_per_segment: int = 4
    """Snapshots for which a segment has room at least, so that large windows are not
    written again and again: segments grow with what is alive."""
    spares: int = 1
    """Segments no longer needed that are kept to be used again."""

    def __post_init__(self) -> None:
        if self.segment_bytes < 1 or self.snapshots_per_segment < 2 or self.spares < 0:
            raise ConfigError("a spool needs segment_bytes >= 1, snapshots >= 2, spares >= 0")


class SpoolLog:
    """A durable log of groups.

    `append` may be called from one thread and the other methods from another. After a
    `SpoolLostError` the log refuses everything: end the process, and recover by opening it again.
    """

    recovered: Recovery
    """What was found when the log was opened."""

    def __init__(self, disk: Disk, settings: SpoolSettings, recovered: Recovery) -> None:
        """Take over what was recovered; callers use `open`."""
        self.recovered = recovered
        self._disk, self._settings = disk, settings
        self._queue: deque[Group] = deque()
        self._writing: deque[Group] = deque()  # groups of a round that is not synced yet
        self._durable: list[int] = []  # tickets to be given back
        self._state: LiveState = recovered.state
        self._sequence = recovered.last_sequence
        self._segment: SegmentName | None = None
        self._fallback = list(recovered.segments)
        self._head = self._position = self._capacity = 0
        self._sealed = True
        self._is_damaged = False  # and may not have been told
        self._lost: str | None = None

    @classmethod
    def open(cls, disk: Disk, settings: SpoolSettings | None = None) -> Self:
        """Recover, cut the torn end, and begin a new segment with a snapshot of what is alive.

        Raises
        ------
        SpoolError
            When the disk cannot be read or written, or holds something newer.
        """
        try:
            recovered = recover(disk)
        except OSError as error:
            raise SpoolError(f"the spool cannot be read: {error}") from error
        recovered.state.begin_generation(AFTER_DAMAGE if recovered.damages else 1)
        log = cls(disk, settings or SpoolSettings(), recovered)
        log._guarded(log._begin)
        return log

    @property
    def queued(self) -> int:
        """Groups that wait for a commit."""
        return len(self._queue) + len(self._writing)

    def append(self, group: Group) -> int:
        """Queue a group and return its ticket; nothing is durable yet."""
        self._refuse_when_lost()
        self._queue.append(group)
        return group.ticket

    def commit(self) -> list[int]:
        """Write and sync all that was queued until now; return the tickets that are durable.

        Raises
        ------
        SpoolFullError
            When the disk has no room: the groups stay queued for the next commit.
        SpoolLostError
            When a write or a sync failed otherwise: the log is dead.
        """
        self._writing.extend(self._queue.popleft() for _ in range(len(self._queue)))
        self._guarded(self._write_rounds)
        durable, self._durable = self._durable, []
        return durable

    def seal(self) -> None:
        """Note durably up to where all is synced; call it when the server has nothing else to do.

        What rots or is missing of the very last round cannot be told from a torn write otherwise.
        Whoever seals has heard of the damages in `recovered`.
        """
        self._guarded(self._write_seal)
        self._guarded(self._forget_damages)

    def note_end(self) -> None:
        """Note the same, but do not wait for the note: for servers that have always work to do."""
        self._guarded(self._write_end)
        self._guarded(self._forget_damages)

    def prepare_spare(self) -> None:
        """Make the next segment's file now, so that no commit has to wait for it."""
        self._guarded(self._fill_spare)

    def close(self) -> None:
        """Seal and let go of the files; groups still queued are not written."""
        try:
            if self._lost is None:
                self.seal()
        finally:
            self._lost = self._lost or "it was closed"
            self._disk.close()

    def _begin(self) -> None:
        self._is_damaged = bool(self.recovered.damages)
        if self._is_damaged and DAMAGED_FILE not in self._disk.names():
            self._disk.create(DAMAGED_FILE, DAMAGED_BYTES)
            self._disk.sync_directory()
        cut = self.recovered.cut
        if cut is not None:
            # or a later recovery could take the torn frames for old ones that were synced
            self._disk.write(cut.segment, cut.offset, bytes(cut.size_bytes))
        for name in self.recovered.segments:
            # what a killed process had written and not synced was read too: once there is a newer
            # segment, it counts as synced
            self._sync(name)
        if ENDS_FILE not in self._disk.names():
            self._disk.create(ENDS_FILE, ENDS_BYTES)
        self._roll()

    def _write_rounds(self) -> None:
        while self._writing:
            if not self._write_round():
                self._roll()

    def _write_round(self) -> bool:
        """Write and sync the queued groups that fit; False when not even one does."""
        segment, start = self._current(), self._position
        parts: list[bytes] = []
        size = count = 0
        commit = encode_commit(segment.marker, start)  # of all groups of the round
        for group in self._writing:
            frames = [*encode_changes(segment.marker, group.changes), commit]
            group_bytes = sum(map(len, frames))
            if start + size + group_bytes > self._capacity and start + size > self._head:
                break
            parts += frames
            size += group_bytes
            count += 1
        if not count:
            return False
        self._sealed = False
        self._write_synced(segment, start, b"".join(parts))
        self._position += size
        for _ in range(count):
            group = self._writing.popleft()
            for change in group.changes:
                self._state.apply(change)
            self._durable.append(group.ticket)
        return True

    def _write_seal(self) -> None:
        if not self._sealed:
            self._write_end()
            self._sync(ENDS_FILE)
            self._sealed = True

    def _forget_damages(self) -> None:
        if self._is_damaged and DAMAGED_FILE in self._disk.names():
            self._disk.remove(DAMAGED_FILE)
            self._disk.sync_directory()
        self._is_damaged = False

    def _write_end(self) -> None:
        self._disk.write(ENDS_FILE, *encode_end(self._current(), self._position))

    def _roll(self) -> None:
        """Begin a segment with a snapshot; only then may older ones be used again."""
        self._sequence += 1
        segment = SegmentName(self._sequence, self._disk.draw_marker() or 1)
        free = self._free()
        if free:
            self._disk.rename(free[0], str(segment))
        else:
            self._disk.create(str(segment), self._settings.segment_bytes)
        self._disk.sync_directory()
        frames = [*encode_changes(segment.marker, self._state.changes(), snapshot=True)]
        frames.append(encode_commit(segment.marker, 0, snapshot=True))
        head = b"".join(frames)
        self._write_synced(segment, 0, head)
        if self._segment is not None:
            self._fallback = [str(self._segment)]
            self._write_end()  # of the last one
        self._segment, self._sealed = segment, False
        self._head = self._position = len(head)
        self._capacity = max(
            self._settings.segment_bytes, self._settings.snapshots_per_segment * len(head)
        )
        self._write_seal()
        self._recycle()

    def _recycle(self) -> None:
        """Keep this segment and its fallback (should the snapshot rot); the others are free."""
        for index, name in enumerate(self._free()):
            if index >= self._settings.spares:
                self._disk.remove(name)
            elif not name.startswith(SPARE):
                self._disk.rename(name, f"{SPARE}{name}")
        self._disk.sync_directory()

    def _fill_spare(self) -> None:
        if not self._free():
            self._disk.create(f"{SPARE}{self._sequence:012d}", self._settings.segment_bytes)
            self._disk.sync_directory()

    def _free(self) -> list[str]:
        """Return the files that hold nothing alive, those of failed attempts included."""
        ours = [one for one in self._disk.names() if SegmentName.parse(one) or is_spare(one)]
        return sorted(set(ours) - {str(self._segment), *self._fallback})

    def _current(self) -> SegmentName:
        if self._segment is None:
            raise SpoolError("the spool is not open: use SpoolLog.open")
        return self._segment

    def _write_synced(self, segment: SegmentName, offset: int, data: bytes) -> None:
        self._disk.write(str(segment), offset, data)
        self._sync(str(segment))

    def _sync(self, name: str) -> None:
        try:
            self._disk.sync(name)
        except OSError as error:
            # the kernel may have dropped the pages: a second sync would succeed and mean nothing
            raise self._give_up(f"the sync of {name} failed: {error}") from error

    def _guarded(self, step: Callable[[], None]) -> None:
        self._refuse_when_lost()
        try:
            step()
        except OSError as error:
            if error.errno in NO_ROOM:
                raise SpoolFullError(
                    f"the spool's disk is full ({error}); nothing was acknowledged, make room"
                ) from error
            raise self._give_up(str(error)) from error

    def _give_up(self, reason: str) -> SpoolLostError:
        self._lost = reason
        return SpoolLostError(f"the spool must be opened again, {reason}; nothing was acknowledged")

    def _refuse_when_lost(self) -> None:
        if self._lost is not None:
            raise SpoolLostError(f"the spool must be opened again: {self._lost}")

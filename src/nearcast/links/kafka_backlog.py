"""What waits for Kafka, on the disk: first in, first out, bounded.

Entries go to files of a few MB; a file is removed when all of it was sent, and the last one is
emptied. They are not synced: what was acknowledged to a publisher is in the spool, from where a
server that starts sends it once more. What a crash cut off at the end of a file does not count.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

__all__ = ["Backlog", "Entry"]

_HEAD = Struct("<II")
"""Length and checksum."""
_NAME = re.compile(r"(\d{10})\.backlog")


class Entry(NamedTuple):
    """Something that waits, and where it ends in the files."""

    file: int
    end: int
    data: bytes


class Backlog:
    """The files of one server; waits until nobody else uses the folder.

    Parameters
    ----------
    folder
        Where they are; made if it is not there.
    most_bytes
        All files together; an entry that does not fit is refused.
    file_bytes
        When a file is full.
    """

    def __init__(self, folder: Path, most_bytes: float, file_bytes: int = 4 << 20) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # the process of a killed server may still send
        self._folder, self._most_bytes, self._file_bytes = folder, most_bytes, file_bytes
        self._sizes: dict[int, int] = {}
        self.waiting = 0
        """Entries that are not done."""
        for number in sorted(int(m[1]) for p in folder.iterdir() if (m := _NAME.fullmatch(p.name))):
            self._take_over(number)
        self._oldest, self._last = min(self._sizes, default=1), max(self._sizes, default=1)
        self._read_file, self._read_at = self._oldest, 0
        self._done: tuple[int, int] = (self._oldest, 0)
        self._ahead: deque[Entry] = deque()
        """Read from the disk, not yet taken."""
        self._sizes.setdefault(self._last, 0)

    @property
    def size_bytes(self) -> int:
        """What the files take."""
        return sum(self._sizes.values())

    def append(self, entries: Sequence[bytes]) -> int:
        """Add entries and return how many there was room for; OSError: the disk refused."""
        taken, data = 0, bytearray()
        room = self._most_bytes - self.size_bytes
        for entry in entries:
            if len(data) + _HEAD.size + len(entry) > room:
                break
            data += _HEAD.pack(len(entry), crc32(entry)) + entry
            taken += 1
        if self._sizes[self._last] >= self._file_bytes:
            self._last += 1
            self._sizes[self._last] = 0
        path = self._path(self._last)
        try:
            with path.open("ab", buffering=0) as file:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError:
            if path.exists():
                os.truncate(path, self._sizes[self._last])  # half an entry must not stay
            raise
        self._sizes[self._last] += len(data)
        self.waiting += taken
        return taken

    def take(self, most: int) -> list[Entry]:
        """Return the next entries, at most `most`; each one once, until `rewind`."""
        if not self._ahead:
            self._read()
        return [self._ahead.popleft() for _ in range(min(most, len(self._ahead)))]

    def done(self, entry: Entry) -> None:
        """Forget an entry; those before it must be done already."""
        self.waiting -= 1
        self._done = (entry.file, entry.end)
        while self._oldest < entry.file:
            self._path(self._oldest).unlink(missing_ok=True)
            del self._sizes[self._oldest]
            self._oldest += 1
        if entry.file == self._last and entry.end == self._sizes[self._last]:
            os.truncate(self._path(self._last), 0)
            self._sizes[self._last] = 0
            self._done = (self._last, 0)
            self._read_file, self._read_at = self._last, 0

    def rewind(self) -> None:
        """Have `take` begin again with the oldest entry that is not done."""
        self._ahead.clear()
        self._read_file, self._read_at = self._done

    def close(self) -> None:
        """Let others use the folder."""
        os.close(self._lock)

    def _take_over(self, number: int) -> None:
        """Count what an earlier process left; cut off what is not whole."""
        path, end = self._path(number), 0
        data = path.read_bytes()
        for entry in _entries(data):
            end += _HEAD.size + len(entry)
            self.waiting += 1
        if end < len(data):
            os.truncate(path, end)
        self._sizes[number] = end

    def _read(self) -> None:
        while self._read_file <= self._last:
            if self._read_at < self._sizes.get(self._read_file, 0):
                with self._path(self._read_file).open("rb") as file:
                    file.seek(self._read_at)
                    data = file.read(self._sizes[self._read_file] - self._read_at)
                for entry in _entries(data):
                    self._read_at += _HEAD.size + len(entry)
                    self._ahead.append(Entry(self._read_file, self._read_at, entry))
                return
            if self._read_file == self._last:
                return
            self._read_file, self._read_at = self._read_file + 1, 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010}.backlog"


def _entries(data: bytes) -> list[bytes]:
    """Return the whole entries at the beginning of some bytes."""
    found, at = [], 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        entry = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(entry) < length or crc32(entry) != checksum:
            break
        found.append(entry)
        at += _HEAD.size + length
    return found

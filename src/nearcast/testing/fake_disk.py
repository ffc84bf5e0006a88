"""A disk in memory that loses power, tears writes, rots and fills up; the same for a seed."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from random import Random
from typing import Literal

__all__ = ["FakeDisk", "PowerCutError"]

_SECTOR_BYTES = 512

Operation = Literal["create", "write", "sync", "rename", "remove", "sync_directory"]


class PowerCutError(Exception):
    """The power went in the middle of an operation: call `FakeDisk.restart`."""


@dataclass(slots=True)
class _File:
    durable: bytearray
    cached: bytearray
    """What reads see: what is durable and all writes on top of it."""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)

    def put(self, offset: int, data: bytes, *, durable: bool) -> None:
        target = self.durable if durable else self.cached
        if len(target) < offset + len(data):
            target.extend(bytes(offset + len(data) - len(target)))
        target[offset : offset + len(data)] = data


class FakeDisk:
    """A `Disk` that keeps apart what was written and what is durable.

    Parameters
    ----------
    seed
        Decides what survives a power cut, and the markers.
    """

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._files: dict[str, _File] = {}
        self._durable_files: dict[str, _File] = {}
        self._unsynced_names: list[tuple[str | None, str | None, _File]] = []
        """Name that went, name that came, file: of each operation since the folder was synced."""
        self._cut_in: int | None = None
        self._errors: dict[str, list[tuple[int, int]]] = {}
        self.operations = 0
        """Operations until now that change anything."""
        self.bytes_written = 0
        self.capacity_bytes: int | None = None
        """Room on the disk; a write or file beyond it fails with ENOSPC."""

    # what a test commands

    def cut_power_in(self, operations: int) -> None:
        """Cut the power in the middle of the n-th operation from now, counted from 1."""
        self._cut_in = operations

    def fail(self, operation: Operation, code: int, *, skip: int = 0) -> None:
        """Let the next operation of a kind, after `skip` good ones, fail with an errno code."""
        self._errors.setdefault(operation, []).append((skip, code))

    def make_room(self) -> None:
        """Let the disk have room without end."""
        self.capacity_bytes = None

    def forget_faults(self) -> None:
        """Take back cuts and errors that have not come yet."""
        self._cut_in = None
        self._errors.clear()

    def restart(self) -> None:
        """Come back after a power cut (or a kill of the whole machine) with what is durable.

        Of the unsynced writes any sectors may have arrived, or the first part of a write; of the
        unsynced names any.
        """
        likely = self._rng.choice((0.0, 0.5, 1.0))
        for gone, come, file in self._unsynced_names:
            if self._rng.random() < likely:
                if gone is not None:
                    self._durable_files.pop(gone, None)
                if come is not None:
                    self._durable_files[come] = file
        self._unsynced_names.clear()
        self._files = dict(self._durable_files)
        for file in self._files.values():
            style = self._rng.choice(("nothing", "all", "sectors", "part"))
            for offset, data in file.unsynced:
                for at, piece in self._arrived(offset, data, style):
                    file.put(at, piece, durable=True)
            file.unsynced.clear()
            file.cached = bytearray(file.durable)
        self.forget_faults()

    def flip_bit(self, name: str, bit: int) -> None:
        """Let one bit of a file rot."""
        file = self._files[name]
        for content in (file.durable, file.cached):
            content[bit // 8] ^= 1 << bit % 8

    def truncate(self, name: str, size_bytes: int) -> None:
        """Lose the end of a file."""
        file = self._files[name]
        for content in (file.durable, file.cached):
            del content[size_bytes:]

    def zero(self, name: str, start: int, end: int) -> None:
        """Let a part of a file read as zeros."""
        file = self._files[name]
        for content in (file.durable, file.cached):
            content[start:end] = bytes(len(content[start:end]))

    def copy(self, seed: int) -> FakeDisk:
        """Return another disk with the same files, as they would be read now, all of it durable."""
        other = FakeDisk(seed)
        other._files = {
            name: _File(bytearray(file.cached), bytearray(file.cached))
            for name, file in self._files.items()
        }
        other._durable_files = dict(other._files)
        return other

    # the Disk protocol

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(self._files)

    def create(self, name: str, size_bytes: int) -> None:
        """Make a file of zeros."""
        self._step("create")
        if name in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        self._need_room(size_bytes)
        self.bytes_written += size_bytes
        self._files[name] = _File(bytearray(size_bytes), bytearray(size_bytes))
        self._unsynced_names.append((None, name, self._files[name]))

    def read(self, name: str) -> bytes:
        """Return all bytes of a file."""
        return bytes(self._file(name).cached)

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write all bytes, or a first part of them when it fails."""
        file = self._file(name)
        try:
            self._step("write")
            self._need_room(offset + len(data) - len(file.cached))
        except (OSError, PowerCutError):
            data = data[: self._rng.randrange(len(data) + 1)]
            file.put(offset, data, durable=False)
            file.unsynced.append((offset, data))
            raise
        self.bytes_written += len(data)
        file.put(offset, data, durable=False)
        file.unsynced.append((offset, data))

    def sync(self, name: str) -> None:
        """Make writes durable; after an error they are forgotten, as kernels do."""
        file = self._file(name)
        try:
            self._step("sync")
        except OSError:
            file.unsynced = file.unsynced[: self._rng.randrange(len(file.unsynced) + 1)]
            raise
        for offset, data in file.unsynced:
            file.put(offset, data, durable=True)
        file.unsynced.clear()

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        self._step("rename")
        self._files[new_name] = file = self._file(name)
        del self._files[name]
        self._unsynced_names.append((name, new_name, file))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._step("remove")
        file = self._file(name)
        del self._files[name]
        self._unsynced_names.append((name, None, file))

    def sync_directory(self) -> None:
        """Make the names durable."""
        self._step("sync_directory")
        self._durable_files = dict(self._files)
        self._unsynced_names.clear()

    def draw_marker(self) -> int:
        """Return 32 bits of the seeded generator."""
        return self._rng.getrandbits(32)

    def close(self) -> None:
        """Do nothing: the files stay for the next opening."""

    def _file(self, name: str) -> _File:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None

    def _step(self, operation: Operation) -> None:
        self.operations += 1
        if self._cut_in is not None:
            self._cut_in -= 1
            if self._cut_in <= 0:
                raise PowerCutError(f"the power went during {operation}")
        pending = self._errors.get(operation)
        if pending:
            skip, code = pending[0]
            if skip:
                pending[0] = (skip - 1, code)
            else:
                pending.pop(0)
                raise OSError(code, os.strerror(code))

    def _need_room(self, more_bytes: int) -> None:
        used = sum(len(file.cached) for file in self._files.values())
        if self.capacity_bytes is not None and used + max(0, more_bytes) > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _arrived(self, offset: int, data: bytes, style: str) -> list[tuple[int, bytes]]:
        if style == "nothing":
            return []
        if style == "all":
            return [(offset, data)]
        if style == "part":
            return [(offset, data[: self._rng.randrange(len(data) + 1)])]
        first = offset - offset % _SECTOR_BYTES
        return [
            (max(at, offset), data[max(0, at - offset) : at - offset + _SECTOR_BYTES])
            for at in range(first, offset + len(data), _SECTOR_BYTES)
            if self._rng.random() < 0.5
        ]

"""The disk of the operating system behind a spool."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from nearcast.errors import SpoolError

__all__ = ["RealDisk"]

_ZEROS = bytes(1 << 20)
_LOCK_FILE = "lock"
_LOCK_RETRY_S = 0.02


class RealDisk:
    """A folder that one process at a time may use; the lock ends with the process.

    Parameters
    ----------
    wait_s
        How long to wait for the process that has it: the writer of a server that was killed still
        finishes what it has.
    """

    def __init__(self, folder: Path, wait_s: float = 0.0) -> None:
        self._files: dict[str, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SpoolError(f"the spool folder {folder} cannot be used: {error}") from error
        self._lock = self._open(_LOCK_FILE, os.O_CREAT)
        ends_at = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if time.monotonic() >= ends_at:
                    self.close()
                    raise SpoolError(f"another process uses the spool folder {folder}") from error
            time.sleep(_LOCK_RETRY_S)

    def names(self) -> list[str]:
        """Return the names of all files but the lock."""
        return [name for name in os.listdir(self._folder) if name != _LOCK_FILE]

    def create(self, name: str, size_bytes: int) -> None:
        """Make a file of zeros, synced, or none."""
        file = self._files[name] = self._open(name, os.O_CREAT | os.O_EXCL)
        try:
            for offset in range(0, size_bytes, len(_ZEROS)):
                self.write(name, offset, _ZEROS[: size_bytes - offset])
            os.fsync(file)
        except OSError:
            self.remove(name)
            raise

    def read(self, name: str) -> bytes:
        """Return all bytes of a file."""
        file = self._file(name)
        parts, at = [], 0
        while part := os.pread(file, 1 << 24, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write all bytes at an offset."""
        file, rest = self._file(name), memoryview(data)
        while rest:
            written = os.pwrite(file, rest, offset)
            offset += written
            rest = rest[written:]

    def sync(self, name: str) -> None:
        """Wait until all writes to a file are on the disk."""
        os.fdatasync(self._file(name))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        os.rename(name, new_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        if name in self._files:
            self._files[new_name] = self._files.pop(name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        if name in self._files:
            os.close(self._files.pop(name))
        os.unlink(name, dir_fd=self._folder)

    def sync_directory(self) -> None:
        """Wait until the names are on the disk."""
        os.fsync(self._folder)

    def draw_marker(self) -> int:
        """Return 32 random bits."""
        return int.from_bytes(os.urandom(4), "little")

    def close(self) -> None:
        """Close all files and let go of the lock."""
        open_files = [*self._files.values(), self._lock, self._folder]
        self._files.clear()
        self._lock = self._folder = -1
        for file in open_files:
            if file >= 0:
                os.close(file)

    def _file(self, name: str) -> int:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._open(name)
        return file

    def _open(self, name: str, flags: int = 0) -> int:
        return os.open(name, os.O_RDWR | os.O_CLOEXEC | flags, 0o600, dir_fd=self._folder)

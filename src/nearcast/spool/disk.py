"""The seam to the disk: a folder of files, as much of it as the spool needs."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Disk"]


class Disk(Protocol):
    """A folder of files. Every method may raise OSError; the log decides what that means."""

    def names(self) -> list[str]:
        """Return the names of all files, in any order."""
        ...

    def create(self, name: str, size_bytes: int) -> None:
        """Make a file of zeros, synced; its name is durable after `sync_directory` only.

        A file that cannot be made whole is not left behind.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return all bytes of a file."""
        ...

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write all bytes at an offset; durable after `sync` only, in any order until then."""
        ...

    def sync(self, name: str) -> None:
        """Make all writes to a file durable. After an error they may be lost for good."""
        ...

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file; durable after `sync_directory` only."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; durable after `sync_directory` only."""
        ...

    def sync_directory(self) -> None:
        """Make created, renamed and removed names durable."""
        ...

    def draw_marker(self) -> int:
        """Return 32 bits that nobody can guess: the marker of a new segment."""
        ...

    def close(self) -> None:
        """Let go of all files; may be called twice."""
        ...

"""The folder of a stream: what it is a stream of, its checkpoints, its tables; one process has it.

::

    stream.json          what may not change while the stream goes on
    checkpoints/NAME     Spark's, of each query
    alerts/              Parquet, a file for each batch that had some; later ones are merged
    quarantine/          records that were refused, and why
    traffic/NNNN/        members and clients after batch NNNN; traffic/latest is the newest
    drift/               a row for each time that the plan was weighed
    told.json            the last batch of alerts that `nearcast pipeline bridge` has told
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearcast.errors import NO_ROOM, ConfigError, OutputError

__all__ = ["StreamFolder", "disk_errors", "replace_file"]

_NOTE = "stream.json"


class StreamFolder:
    """Where a stream keeps what it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()  # Spark may have been started elsewhere

    def checkpoint(self, query: str) -> Path:
        """Return where Spark keeps how far a query is."""
        return self.folder / "checkpoints" / query

    @contextmanager
    def opened(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """Make the folder, or go on with the one of the same stream; other processes stay out.

        Raises
        ------
        ConfigError
            When it belongs to another stream, or another process has it.
        OutputError
            When it cannot be written.
        """
        with disk_errors(self.folder):
            if self.folder.exists() and not (self.folder / _NOTE).exists() and self._has_files():
                raise OutputError(f"{self.folder}: exists already and is not a stream's")
            (self.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / "lock", "a")  # noqa: SIM115 - closed below
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"{self.folder}: another process runs this stream") from None
            self._check(identity)
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Remove what a kill or a full disk left half written: Spark does not begin beside it."""
        with disk_errors(self.folder):
            for half in ("*.tmp", "*.tmp.crc"):
                for file in (self.folder / "checkpoints").rglob(f".{half}"):
                    file.unlink()

    def _has_files(self) -> bool:
        return any(one.name not in ("lock", "checkpoints") for one in self.folder.iterdir())

    def _check(self, identity: Mapping[str, Any]) -> None:
        note = self.folder / _NOTE
        with disk_errors(self.folder):
            if not note.exists():
                replace_file(note, json.dumps(dict(identity), indent=1).encode())
                return
            try:
                known = json.loads(note.read_text())
            except ValueError:
                known = None
        if not isinstance(known, dict):
            raise ConfigError(f"{note}: is not what a stream writes there")
        for key, value in identity.items():
            # what is not known belongs to a query that begins now
            if known.get(key, value) != value:
                raise ConfigError(
                    f"{self.folder}: its checkpoint is of another query: {key} was {known[key]!r}, "
                    f"now it is {value!r}; give another --out"
                )
        if identity.keys() - known.keys():
            with disk_errors(self.folder):
                replace_file(note, json.dumps({**known, **identity}, indent=1).encode())


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence with the place."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM
        reason = "the disk is full" if full else error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason = f"cannot be written: {reason}"
        raise OutputError(f"{place}: {reason}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, also when the power fails."""
    partial = path.with_name(f".{path.name}.tmp")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)

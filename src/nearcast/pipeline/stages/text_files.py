"""The beginnings of text files, plain or gzip, read on the driver."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from nearcast.errors import ScenarioError
from nearcast.pipeline.hadoop_paths import HadoopPath

__all__ = ["check_text_file", "first_line", "lines_of"]

_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 1 << 24


def check_text_file(file: Path | HadoopPath) -> None:
    """Raise an error unless a text file can be read and has a line."""
    if not first_line(file):
        raise ScenarioError("is empty", file=str(file))


def first_line(file: Path | HadoopPath) -> str:
    """Return the first line that is not empty, or an empty text."""
    return next((line.rstrip("\r\n") for line in lines_of(file) if line.strip()), "")


def lines_of(file: Path | HadoopPath) -> Iterator[str]:
    """Return the lines of a text file, cut where they are very long."""
    try:
        with _open_lines(file) as lines:
            while line := lines.readline(_LONGEST_LINE):
                yield line
    except (OSError, EOFError, zlib.error) as reason:
        raise ScenarioError(f"cannot be read: {reason}", file=str(file)) from None


class _Unpacked(gzip.GzipFile):
    """A gzip file that closes what it reads from."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


def _open_lines(file: Path | HadoopPath) -> IO[str]:
    """Open a text file, unpacked if it is gzip; bytes that are not UTF-8 are replaced."""
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == _GZIP
        if packed and file.suffix != ".gz":
            raise ScenarioError("is packed by gzip; let its name end in .gz", file=str(file))
        binary: Any = file.open("rb")  # the caller closes
        if packed:
            binary = _Unpacked(binary)
    except OSError as reason:
        raise ScenarioError(f"cannot be read: {reason.strerror}", file=str(file)) from None
    return io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline="\n")

"""Paths on other file systems (``hdfs://``, ``s3a://`` ...), through Hadoop's own in Spark's JVM.

Executors read logs there themselves. The driver looks at their beginnings, fetches a file of
sites, and brings a finished run there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from nearcast.domain.local_paths import scheme_of
from nearcast.errors import PipelineError, ScenarioError
from nearcast.pipeline.spark_errors import clear_errors

__all__ = ["HadoopPath"]

_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, order=True)
class HadoopPath:
    """A file or folder of another file system; it can be looked at while a Spark session lives."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.url)

    @property
    def name(self) -> str:
        """The last part."""
        return self._pure.name

    @property
    def suffix(self) -> str:
        """The ending."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All endings."""
        return self._pure.suffixes

    def absolute(self) -> HadoopPath:
        """Return the path, which has a scheme and is absolute."""
        return self

    def beside(self, ending: str) -> HadoopPath:
        """Return the path with something after its name."""
        return HadoopPath(self.url.rstrip("/") + ending)

    def __truediv__(self, part: str) -> HadoopPath:
        return HadoopPath(f"{self.url.rstrip('/')}/{part}")

    def exists(self) -> bool:
        """Return whether there is something."""
        with self._system() as (system, path):
            return bool(system.exists(path))

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        with self._system() as (system, path):
            return bool(system.exists(path)) and bool(system.getFileStatus(path).isDirectory())

    def is_empty_folder(self) -> bool:
        """Return whether it is a folder without entries."""
        with self._system() as (system, path):
            return self.is_dir() and len(system.listStatus(path)) == 0

    def identity(self) -> dict[str, Any]:
        """Return by what the file is known again."""
        with self._system() as (system, path):
            status = system.getFileStatus(path)
            changed_ns = int(status.getModificationTime()) * 1_000_000
            return {"file": self.url, "bytes": int(status.getLen()), "changed_ns": changed_ns}

    def files(self) -> list[HadoopPath]:
        """Return the files of a path, a folder or a pattern, in order; names of marks left out.

        Raises
        ------
        ScenarioError
            When there is none.
        """
        with self._system() as (system, path):
            matches = [path] if system.exists(path) else _matches(system, path)
            if not matches:
                raise ScenarioError("no such file", file=self.url)
            found = []
            for match in matches:
                inside = sorted(_visible(system, match))
                if not inside:
                    raise ScenarioError("is a folder without files", file=str(match.toString()))
                found += [HadoopPath(url) for url in inside]
            return found

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open the file for reading."""
        assert mode == "rb"
        with self._system() as (system, path):
            size = int(system.getFileStatus(path).getLen())
            raw = _JavaStream(system.open(path), size)
        return io.BufferedReader(raw, _BUFFER_BYTES)

    def fetch(self, file: str) -> None:
        """Copy the file to this machine."""
        with self._system() as (system, path):
            # Raw: without a file of checksums beside it.
            system.copyToLocalFile(False, path, _java_path(f"file://{file}"), True)

    def bring(self, folder: str) -> None:
        """Copy a folder of this machine here; nothing must be here yet."""
        with self._system() as (system, path):
            system.setWriteChecksum(False)
            system.mkdirs(path.getParent())
            system.copyFromLocalFile(False, False, _java_path(f"file://{folder}"), path)

    def rename(self, other: HadoopPath) -> None:
        """Give it another name; in an object store everything is copied for that."""
        with self._system() as (system, path):
            if not system.rename(path, _java_path(other.url)):
                raise PipelineError(f"{self.url}: cannot be renamed to {other.url}")

    def delete(self) -> None:
        """Remove the file or the whole folder, if there is one."""
        with self._system() as (system, path):
            system.delete(path, True)

    @contextmanager
    def _system(self) -> Iterator[tuple[Any, Any]]:
        """Give Hadoop's file system and path; errors of Java become one sentence."""
        from pyspark import SparkContext

        context = SparkContext._active_spark_context  # noqa: SLF001
        if context is None:
            raise PipelineError(f"{self.url}: {scheme_of(self.url)} needs a Spark session")
        with clear_errors(self.url):
            path = _java_path(self.url)
            yield path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001


class _JavaStream(io.RawIOBase):
    """An input stream of Java; what is read comes over py4j, so it is for small parts."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size, self._at = stream, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        want = min(len(buffer), max(self._size - self._at, 0))
        if want == 0:
            return 0
        with clear_errors("reading"):
            read = bytes(self._stream.readNBytes(want))
        buffer[: len(read)] = read
        self._at += len(read)
        return len(read)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        self._stream.seek(self._at)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _java_path(url: str) -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm.org.apache.hadoop.fs.Path(url)  # type: ignore[union-attr]  # noqa: SLF001


def _matches(system: Any, path: Any) -> list[Any]:
    found = system.globStatus(path)
    return [] if found is None else [status.getPath() for status in found]


def _visible(system: Any, path: Any) -> Iterator[str]:
    """Yield the files of a file or folder; names that begin with _ or . are marks."""
    top = str(path.toString()).rstrip("/")
    entries = system.listFiles(path, True)
    while entries.hasNext():
        url = str(entries.next().getPath().toString())
        inside = url.rpartition(top)[2].strip("/")
        if not inside or not any(part.startswith(("_", ".")) for part in inside.split("/")):
            yield url

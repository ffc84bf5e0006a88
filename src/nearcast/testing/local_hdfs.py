"""A real HDFS on this machine: a name node and a data node on free loopback ports."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.errors import ConfigError
from nearcast.links.maven_jars import HDFS, find_jars
from nearcast.links.tied_process import tied
from nearcast.pipeline.java import java_home

__all__ = ["LocalHdfs"]

_POLL_S = 0.05
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_BOTH_NODES = "org.apache.hadoop.test.MiniDFSClusterManager"


class LocalHdfs:
    """An empty HDFS, up while the block runs and gone afterwards.

    Parameters
    ----------
    timeout_s : after this an HDFS that is not up is an error.

    Raises
    ------
    ConfigError
        On entry, when jars or Java are missing or it does not come up; with the end of its log.
    """

    def __init__(self, *, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self.url = ""
        """What paths begin with: ``hdfs://HOST:PORT``."""

    def __enter__(self) -> Self:
        jars = [*find_jars(HDFS), *_sparks_jars()]
        self._temporary = tempfile.TemporaryDirectory(
            prefix="nearcast-hdfs-", ignore_cleanup_errors=True
        )
        folder = Path(self._temporary.name)
        home, told = java_home(), folder / "told.json"
        program = "java" if home is None else str(Path(home, "bin", "java"))
        command = [program, *_JAVA, f"-Dtest.build.data={folder / 'data'}", _BOTH_NODES]
        command += ["-datanodes", "1", "-format", "-writeDetails", str(told)]
        with (folder / "hdfs.log").open("wb") as log:
            self._process = subprocess.Popen(
                tied(command),
                env={**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars))},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.url = f"hdfs://127.0.0.1:{self._await_port(folder, told)}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _await_port(self, folder: Path, told: Path) -> int:
        """Return the name node's port, which is told when both nodes are up."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            ended = self._process.poll() is not None
            try:
                return int(json.loads(told.read_text())["namenode_port"])
            except (OSError, ValueError):
                if ended or time.monotonic() > deadline:
                    log = (folder / "hdfs.log").read_text(errors="replace")
                    tail = "\n".join(log.splitlines()[-5:])
                    what = "ended" if ended else f"is not up after {self._timeout_s:g} s"
                    raise ConfigError(f"HDFS {what}:\n{tail}") from None
            time.sleep(_POLL_S)

    def _end(self) -> None:
        # It keeps nothing that would have to be written.
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()


def _sparks_jars() -> list[Path]:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed")
    return sorted(Path(found.origin).with_name("jars").glob("*.jar"))

"""A real HDFS on this machine: a name node and a data node on free loopback ports."""

from __future__ import annotations

import json
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.errors import ConfigError
from nearcast.links.maven_jars import HDFS, find_jars
from nearcast.links.tied_process import tied
from nearcast.testing.started_program import java_command, start_program, wait_until_up

__all__ = ["LocalHdfs"]

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
        told, log = folder / "told.json", folder / "hdfs.log"
        command = java_command(f"-Dtest.build.data={folder / 'data'}", _BOTH_NODES)
        command += ["-datanodes", "1", "-format", "-writeDetails", str(told)]
        environment = {**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars))}
        self._process = start_program(tied(command), log, environment, folder)
        try:
            port = wait_until_up(self._process, "HDFS", log, lambda _: _port(told), self._timeout_s)
            self.url = f"hdfs://127.0.0.1:{port}"
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

    def _end(self) -> None:
        # It keeps nothing that would have to be written.
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()


def _port(told: Path) -> int | None:
    """Return the name node's port, which is told when both nodes are up."""
    try:
        return int(json.loads(told.read_text())["namenode_port"])
    except (OSError, ValueError):
        return None


def _sparks_jars() -> list[Path]:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed")
    return sorted(Path(found.origin).with_name("jars").glob("*.jar"))

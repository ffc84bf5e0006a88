"""A real Spark standalone cluster on loopback, started from the installed pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.errors import PipelineError
from nearcast.pipeline.java import java_home
from nearcast.testing.started_program import start_program, wait_until_up

__all__ = ["SparkCluster"]

_HOST = "127.0.0.1"
_ADDRESS = ("--host", _HOST, "--port", "0", "--webui-port", "0")
_STOP_S = 10.0
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkCluster:
    """A master and some workers, each a process of its own, up while the block runs.

    Parameters
    ----------
    workers : how many.
    cores : of each worker.
    memory : of each worker, as Spark writes it.
    timeout_s : after this a cluster that is not up is an error.

    Raises
    ------
    PipelineError
        On entry, when there is no Java or the cluster does not come up; with the end of the log.
    """

    def __init__(
        self, workers: int = 2, *, cores: int = 1, memory: str = "1g", timeout_s: float = 60.0
    ) -> None:
        self._count, self._cores, self._memory = workers, cores, memory
        self._timeout_s = timeout_s
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self.master = ""
        """Address for ``--master``."""
        self.folder = Path()
        """Logs and the workers' own folders; removed at the end."""

    @property
    def conf(self) -> Mapping[str, str]:
        """Settings with which a driver on this machine uses the cluster well."""
        return {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _QUICK_START,
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.sql.shuffle.partitions": str(self._count * self._cores),
            "spark.ui.enabled": "false",
        }

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(
            prefix="nearcast-cluster-", ignore_cleanup_errors=True
        )
        self.folder = Path(self._temporary.name)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def work_folder(self, worker: int) -> Path:
        """Return where a worker keeps its applications' files."""
        return self.folder / f"worker-{worker}"

    def kill_worker(self, worker: int) -> None:
        """Kill a worker and its executors at once, as when its machine loses power."""
        os.killpg(self._workers[worker].pid, signal.SIGKILL)
        self._workers[worker].wait()

    def start_worker(self, worker: int) -> None:
        """Start a worker that was killed once more."""
        self._workers[worker] = self._launch_worker(worker)
        self._await_worker(worker)

    def _start(self) -> None:
        (self.folder / "scratch").mkdir()
        master = self._launch("master", "org.apache.spark.deploy.master.Master", [*_ADDRESS])
        self.master = self._await("master", master, r"Starting Spark master at (\S+)")
        self._workers = [self._launch_worker(number) for number in range(self._count)]
        for number in range(self._count):
            self._await_worker(number)

    def _launch_worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = self.work_folder(number)
        size = ["--cores", str(self._cores), "--memory", self._memory]
        arguments = [*_ADDRESS, *size, "--work-dir", str(folder), self.master]
        return self._launch(folder.name, "org.apache.spark.deploy.worker.Worker", arguments)

    def _await_worker(self, number: int) -> None:
        log = self.work_folder(number).name
        self._await(log, self._workers[number], r"(Successfully registered with master)")

    def _launch(self, name: str, kind: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        found = find_spec("pyspark")
        if found is None or found.origin is None:
            raise PipelineError("pyspark is not installed")
        spark_home = Path(found.origin).parent
        home = java_home()
        environment = {key: text for key, text in os.environ.items() if key[:6] != "SPARK_"}
        environment |= {
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
            **({"JAVA_HOME": home} if home else {}),
        }
        command = [str(spark_home / "bin" / "spark-class"), kind, *arguments]
        log = self.folder / f"{name}.log"
        # its executors are in its group, and end with it
        process = start_program(command, log, environment, self.folder)
        self._processes.append(process)
        return process

    def _await(self, name: str, process: subprocess.Popen[bytes], sign: str) -> str:
        """Return what a process writes to its log when it is ready."""
        found = wait_until_up(
            process,
            f"the Spark cluster's {name}",
            self.folder / f"{name}.log",
            re.compile(sign).search,
            self._timeout_s,
            PipelineError,
        )
        return found.group(1)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._temporary.cleanup()

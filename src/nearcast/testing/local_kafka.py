"""A real Apache Kafka on this machine: one broker (KRaft) on free loopback ports.

``python -m nearcast.testing.local_kafka up|down`` is what ``make kafka-up`` and ``make kafka-down``
call: a broker that stays, in a folder of its own.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.errors import ConfigError
from nearcast.links.maven_jars import BROKER, find_jars
from nearcast.links.tied_process import tied
from nearcast.testing.ports import closed_port
from nearcast.testing.started_program import (
    POLL_S,
    java_command,
    start_program,
    wait_until_up,
)

__all__ = ["LocalKafka"]

_HOST = "127.0.0.1"
_STOP_S = 20.0
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # a topic that nobody made is a mistake that should show
    "auto.create.topics.enable": "false",
    # else a small heap ends with the cleaner's buffer
    "log.cleaner.dedupe.buffer.size": "4194304",
    # a broker that was killed is let in again sooner
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class LocalKafka:
    """A broker, up while the block runs; it may be stopped, killed and started again in between.

    Parameters
    ----------
    folder
        Where it keeps its data; None: a folder that is removed at the end.
    port
        Of clients; 0: any free one.
    properties
        Further settings of the broker.
    timeout_s
        After this a broker that is not up is an error.
    stays
        It outlives this process, unless it is stopped. Else it is killed when the thread that
        started it ends, however that happens.

    Raises
    ------
    ConfigError
        On entry, when jars or Java are missing or it does not come up; with the end of its log.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        stays: bool = False,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix="nearcast-kafka-", ignore_cleanup_errors=True
            )
            folder = Path(self._temporary.name)
        self.folder = folder.absolute()
        self._port = port or closed_port()
        self._more, self._timeout_s, self._stays = dict(properties or {}), timeout_s, stays
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect: ``HOST:PORT``."""
        return f"{_HOST}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self.start()
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

    def start(self) -> None:
        """Start it, on the same port and with what it kept, and wait until it answers."""
        jars = [str(path) for path in find_jars(BROKER)]
        if self._answers():
            raise ConfigError(f"{self.bootstrap}: another program listens there")
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        environment = {**os.environ, "CLASSPATH": os.pathsep.join(jars)}
        is_new = not (self.folder / "data").exists()
        if is_new or f"//{self.bootstrap}," not in settings.read_text():
            self._write_settings(settings)
        if is_new:
            number = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
            tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={number}", "-c"]
            made = subprocess.run(
                java_command(_QUIET, *tool, str(settings)),
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode:
                raise ConfigError(f"Kafka's folder cannot be made: {made.stderr or made.stdout}")
        command = java_command(_QUIET, "kafka.Kafka", str(settings))
        log = self.folder / "broker.log"
        self._process = start_program(command if self._stays else tied(command), log, environment)
        # it opens its port when it has taken up its work
        name = f"Kafka at {self.bootstrap}"
        wait_until_up(self._process, name, log, lambda _: self._answers(), self._timeout_s)

    def stop(self) -> None:
        """End it as an operator would."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def kill(self) -> None:
        """End it at once, as when its machine loses power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _write_settings(self, file: Path) -> None:
        controller = closed_port()
        listen = f"PLAINTEXT://{self.bootstrap},CONTROLLER://{_HOST}:{controller}"
        settings = {
            **_PROPERTIES,
            "listeners": listen,
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "log.dirs": str(self.folder / "data"),
            **self._more,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _answers(self) -> bool | None:
        """Return True when somebody listens at its port, else None."""
        with socket.socket() as client, suppress(OSError):
            client.settimeout(1.0)
            client.bind((_HOST, 0))
            # a connection to itself succeeds, and keeps the broker from the port
            if client.getsockname()[1] != self._port:
                client.connect((_HOST, self._port))
                return True
        return None

    def _end(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(verb: str, folder: Path, port: int) -> None:
    """Start a broker that stays, or stop it."""
    noted = folder / "broker.pid"
    running = _running(noted)
    if verb == "up":
        if running is not None:
            raise ConfigError(f"{folder}: a broker runs already, process {running}")
        broker = LocalKafka(folder, port=port, stays=True)
        try:
            broker.start()
        except BaseException:
            broker.stop()
            raise
        noted.write_text(str(broker.pid))
        sys.stdout.write(f"Kafka at {broker.bootstrap}, process {broker.pid}, data in {folder}\n")
    elif running is not None:
        os.kill(running, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while _running(noted) is not None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        noted.unlink()
        sys.stdout.write(f"Kafka has stopped; its data stays in {folder}\n")
    else:
        sys.stdout.write(f"no Kafka runs in {folder}\n")


def _running(noted: Path) -> int | None:
    """Return the process that a file names, if it is still Kafka."""
    try:
        process = int(noted.read_text())
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return process if b"kafka.Kafka" in command else None


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    except ConfigError as error:
        sys.exit(f"error: {error}")

"""What is measured: programs of their own that turn events in Kafka into alerts there."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.experiments.stream.load import OPTIONS
from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["MODES", "Subject", "has_real_time_mode"]

MICRO_BATCH, REAL_TIME, CONSUMER = "micro-batch", "real-time", "consumer"
MODES = (MICRO_BATCH, REAL_TIME, CONSUMER)
"""Spark with the event broker; Spark in real-time mode, SQL only; plain Kafka and Python."""
_NEARCAST = [sys.executable, "-c", "from nearcast.cli.main import main; main()"]
_WORKER = [sys.executable, "-m", "nearcast.experiments.stream.real_time_worker"]


def has_real_time_mode() -> bool:
    """Return whether the installed Spark offers it to Python."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


class Subject:
    """A program under measurement; use it with ``with``, kill and start it again in between."""

    def __init__(self, mode: str, kafka: KafkaSettings, folder: Path) -> None:
        where = ["--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix]
        options = ["--options", json.dumps(OPTIONS)]
        self._command = {
            MICRO_BATCH: [
                *(*_NEARCAST, "pipeline", "stream", *where, *options),
                *("--out", str(folder / "out")),
            ],
            REAL_TIME: [*_WORKER, kafka.bootstrap, kafka.prefix, str(folder / "checkpoint")],
            CONSUMER: [*_NEARCAST, "kafka", "events", *where, *options],
        }[mode]
        self._said = folder / "said.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Subject:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, in a group of processes of its own."""
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it with its JVM, by SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Raise NearcastError when it has ended by itself, with what it said last."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._said.read_text(errors="replace").strip().splitlines()
            self._process = None
            raise NearcastError(f"what is measured has ended: {' '.join(lines[-1:])}")

"""What is measured: programs of their own that turn events in Kafka into alerts there."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.experiments.stream.load import OPTIONS
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.tied_process import tied

__all__ = [
    "BRIDGE",
    "CONSUMER",
    "ECHO",
    "MICRO_BATCH",
    "MODES",
    "OF_SITES",
    "REAL_TIME",
    "SITE_ECHO",
    "Subject",
    "has_real_time_mode",
    "out_of",
]

MICRO_BATCH = "micro-batch"
"""Spark with the event broker."""
REAL_TIME = "real-time"
"""Spark's mode of that name, SQL only."""
CONSUMER = "consumer"
"""Plain Kafka and a Python program with the event broker."""
ECHO = "echo"
"""The same without it: each event comes back."""
SITE_ALERT = "site-alert"
SITE_ECHO = "site-echo"
OF_SITES = {SITE_ALERT: CONSUMER, SITE_ECHO: ECHO}
"""The last two between clients of a site."""
MODES = (MICRO_BATCH, REAL_TIME, CONSUMER, ECHO, *OF_SITES)
BRIDGE = "bridge"
_NEARCAST = [sys.executable, "-c", "from nearcast.cli.main import main; main()"]
_WORKERS = [sys.executable, "-m"]
_WORKERS_AT = "nearcast.experiments.stream"


def has_real_time_mode() -> bool:
    """Return whether the installed Spark offers it to Python."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


def out_of(folder: Path) -> Path:
    """Return where the stream that has a folder writes its tables."""
    return folder / "out"


class Subject:
    """A program under measurement; use it with ``with``, kill and start it again in between.

    Parameters
    ----------
    more
        Further words of its command line.
    """

    def __init__(
        self,
        mode: str,
        kafka: KafkaSettings,
        folder: Path,
        credentials: Path | None = None,
        more: Sequence[str] = (),
    ) -> None:
        where = ["--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix]
        options = ["--options", json.dumps(OPTIONS)]
        # a group of its own: Kafka would wait for members of an earlier case, which were killed
        group = ["--group", f"{kafka.prefix}.{mode}"]
        self._command = {
            MICRO_BATCH: [
                *(*_NEARCAST, "pipeline", "stream", *where, *options),
                *("--out", str(out_of(folder))),
            ],
            REAL_TIME: [
                *(*_WORKERS, f"{_WORKERS_AT}.real_time_worker"),
                *(kafka.bootstrap, kafka.prefix, str(folder / "checkpoint")),
            ],
            CONSUMER: [*_NEARCAST, "kafka", "events", *where, *group, *options],
            ECHO: [*_WORKERS, f"{_WORKERS_AT}.echo_worker", kafka.bootstrap, kafka.prefix],
            BRIDGE: [
                *(*_NEARCAST, "kafka", "bridge", *where, *group),
                *("--credentials", str(credentials)),
            ],
        }[OF_SITES.get(mode, mode)] + list(more)
        self._said = folder / f"{mode}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Subject:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, in a group of processes of its own; its JVM ends with it, and it with us."""
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                tied(self._command),
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

"""The Spark session: embedded by default, the same on a cluster."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from nearcast.errors import PipelineError
from nearcast.pipeline.class_archive import use_archive
from nearcast.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QUICK_COMPILER", "SparkSettings", "is_alive", "is_embedded", "open_session"]

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Option of a JVM that is gone soon."""
_CONNECT_S = 5.0
_STREAMS = (1, 2)
"""Output and errors: a JVM that cannot start says so on the first."""
_SETTING = re.compile(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*?)\s*$")
_OWN_MASTER = "local[*]"
_EMBEDDED = {
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "nearcast.pipeline.worker_daemon",
    # more files than this are listed by a job with a task for each
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
"""Settings that make sense where all processes are on this machine and share its libraries."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to reach Spark."""

    master: str | None = None
    """None: what spark-submit was told, or spark-defaults.conf says, else local[*], which is
    inside this process."""
    name: str = "nearcast"
    driver_memory: str | None = None
    """Heap of the driver's JVM; embedded, that is all of Spark but the Python workers. None: what
    spark-submit was told, or spark-defaults.conf says, else 2g."""
    ui: bool = True
    """Serve Spark's own pages while the session lives."""
    is_short_lived: bool = False
    """Embedded: the JVM spends no time on the best machine code, which pays after minutes only."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Any other Spark settings; they win over those of spark-submit and spark-defaults.conf, and these over
    ours."""


def is_embedded(master: str) -> bool:
    """Return whether Spark runs inside this process' own JVM."""
    return master.startswith("local") and not master.startswith("local-cluster")


def is_alive(session: SparkSession) -> bool:
    """Return whether a session's JVM still answers; one that does not is forgotten.

    The next `open_session` then starts another JVM.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as Sessions

    try:
        if not session.sparkContext._jsc.sc().isStopped():  # noqa: SLF001 - asks the JVM
            return True
    except Exception:  # py4j, sockets and Spark have a kind of error each
        pass
    for holder, name in (
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkContext, "_active_spark_context"),
        (Sessions, "_instantiatedSession"),
        (Sessions, "_activeSession"),
    ):
        setattr(holder, name, None)
    return False


@contextmanager
def open_session(settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Give a session and stop it at the end; one that runs already is used and left running.

    Raises
    ------
    PipelineError
        When there is no Java, the master cannot be reached, or Spark refuses the settings.
    """
    settings = settings or SparkSettings()
    on_interrupt = signal.getsignal(signal.SIGINT)
    session, is_ours = _start(settings)
    try:
        yield session
    finally:
        if is_ours:
            _stop(session)
            # Spark's own handler would ask a session that is gone to cancel its jobs
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_interrupt or signal.SIG_DFL)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Leave out the pages that py4j logs of a call that Ctrl-C or the JVM's end broke off.

    It has no logger of its own for them, and raises the error besides.
    """
    return "py4j" not in record.pathname


def _stop(session: SparkSession) -> None:
    """Stop a session; what is left of one whose JVM is gone is forgotten."""
    from py4j.protocol import Py4JError

    try:
        session.stop()
    except (Py4JError, OSError):
        # Whoever used it has heard of it.
        is_alive(session)


def _start(settings: SparkSettings) -> tuple[SparkSession, bool]:
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    told = _told_by_submit() or _told_by_file()
    master = settings.master or told.get("spark.master", _OWN_MASTER)
    _check_master(master)
    # Workers must run the driver's Python, with its packages, not the first one on the PATH. A
    # setting that spark-submit has not read goes unheard, but for the environment.
    if (python := settings.conf.get("spark.pyspark.python")) is not None:
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_embedded(master):
        # Spark would look for a name and an address of this host, and warn when they differ.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    logging.getLogger().addFilter(_is_not_of_py4j)
    running = SparkSession.getActiveSession()
    if running is not None and settings.master in (None, running.sparkContext.master):
        return running, False
    builder = SparkSession.builder.appName(told.get("spark.app.name", settings.name)).master(master)
    ours = {key: value for key, value in _defaults(settings, master).items() if key not in told}
    if settings.driver_memory is not None:
        ours["spark.driver.memory"] = settings.driver_memory
    for key, value in {**ours, **settings.conf}.items():
        builder = builder.config(key, value)
    with _set_apart(wanted="spark.log.level" not in settings.conf) as said:
        try:
            session = builder.getOrCreate()
        except Exception as error:  # py4j and Spark raise many kinds here; the first line says it
            if not isinstance(error, PySparkException) and "Py4J" not in type(error).__name__:
                raise
            reason = _last_error(said) or _first(error)
            raise PipelineError(f"Spark does not start at {master}: {reason}") from error
    if not is_embedded(master):
        from nearcast.pipeline.shipping import ship_package

        ship_package(session)
    return session, running is None  # Spark may have given the one that runs


@contextmanager
def _set_apart(*, wanted: bool) -> Iterator[IO[bytes]]:
    """Give a file that a JVM which starts in the block writes its log to, for all its life.

    A terminal is no place for it: what matters comes back as an error. With `wanted` false, since
    the user asked for the log, it stays there.
    """
    with tempfile.TemporaryFile() as said:
        if not wanted:
            yield said
            return
        sys.stdout.flush()
        sys.stderr.flush()
        kept = [os.dup(stream) for stream in _STREAMS]
        for stream in _STREAMS:
            os.dup2(said.fileno(), stream)
        try:
            yield said
        finally:
            for stream, terminal in zip(_STREAMS, kept, strict=True):
                os.dup2(terminal, stream)
                os.close(terminal)


def _last_error(said: IO[bytes]) -> str:
    """Return what a JVM that did not come up said last."""
    said.seek(0)
    text = said.read().decode(errors="replace")
    found = re.search(r"^(Invalid|Error).*\n.*", text, re.MULTILINE)
    return "" if found is None else found.group().replace("\n", ": ").removesuffix(": ")


def _told_by_submit() -> dict[str, str]:
    """Return the settings of the spark-submit that runs this program; none if none does."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - only the JVM that it started knows them
    return dict(SparkConf().getAll())


def _told_by_file() -> dict[str, str]:
    """Return the user's settings for all of Spark, which the JVM reads when it starts."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and (home := os.environ.get("SPARK_HOME")) is not None:
        folder = os.path.join(home, "conf")
    if folder is None:
        return {}
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for line in lines if (found := _SETTING.match(line))}


def _defaults(settings: SparkSettings, master: str) -> dict[str, str]:
    embedded = is_embedded(master)
    cores = os.cpu_count() or 2
    return {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores if embedded else 200),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.driver.maxResultSize": "0",
        **(_EMBEDDED | _java_options(settings) if embedded else {}),
    }


def _java_options(settings: SparkSettings) -> dict[str, str]:
    quick = QUICK_COMPILER if settings.is_short_lived else None
    options = [one for one in (use_archive(), quick) if one is not None]
    return {"spark.driver.extraJavaOptions": " ".join(options)} if options else {}


def _check_master(master: str) -> None:
    """Refuse a standalone master that nobody listens at: Spark itself would try for minutes."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for part in master.removeprefix("spark://").split(","):
        try:
            address = urlsplit(f"spark://{part}")
            host, port = address.hostname, address.port or 7077
        except ValueError as error:
            raise PipelineError(f"{master}: is not an address of a Spark master") from error
        if host is None:
            raise PipelineError(f"{master}: is not an address of a Spark master")
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise PipelineError(
        f"no Spark master answers at {master} ({'; '.join(reasons)}); "
        "start it, or leave --master out to run embedded"
    )


def _first(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)

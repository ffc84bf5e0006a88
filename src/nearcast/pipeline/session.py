"""The Spark session: embedded by default, the same on a cluster."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nearcast.errors import PipelineError
from nearcast.pipeline.class_archive import use_archive
from nearcast.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSettings", "is_embedded", "open_session"]

_CONNECT_S = 5.0
_EMBEDDED = {
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "nearcast.pipeline.worker_daemon",
}
"""Settings that make sense where all processes are on this machine and share its libraries."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to reach Spark."""

    master: str = "local[*]"
    name: str = "nearcast"
    driver_memory: str = "2g"
    """Heap of the driver's JVM; embedded, that is all of Spark but the Python workers."""
    ui: bool = True
    """Serve Spark's own pages while the session lives."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Any other Spark settings; they win over ours."""


def is_embedded(master: str) -> bool:
    """Return whether Spark runs inside this process' own JVM."""
    return master.startswith("local") and not master.startswith("local-cluster")


@contextmanager
def open_session(settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Give a session and stop it at the end; one that runs already is used and left running.

    Raises
    ------
    PipelineError
        When there is no Java, the master cannot be reached, or Spark refuses the settings.
    """
    settings = settings or SparkSettings()
    session, is_ours = _start(settings)
    try:
        yield session
    finally:
        if is_ours:
            session.stop()


def _start(settings: SparkSettings) -> tuple[SparkSession, bool]:
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    _check_master(settings.master)
    # Workers must run the driver's Python, with its packages, not the first one on the PATH.
    if "spark.pyspark.python" not in settings.conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_embedded(settings.master):
        # Spark would look for a name and an address of this host, and warn when they differ.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master == settings.master:
        return running, False
    builder = SparkSession.builder.appName(settings.name).master(settings.master)
    for key, value in {**_defaults(settings), **settings.conf}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j and Spark raise many kinds here; the first line says it
        if not isinstance(error, PySparkException) and "Py4J" not in type(error).__name__:
            raise
        raise PipelineError(
            f"Spark does not start at {settings.master}: {_first(error)}"
        ) from error
    if not is_embedded(settings.master):
        from nearcast.pipeline.shipping import ship_package

        ship_package(session)
    return session, running is None  # Spark may have given the one that runs


def _defaults(settings: SparkSettings) -> dict[str, str]:
    embedded = is_embedded(settings.master)
    cores = os.cpu_count() or 2
    return {
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores if embedded else 200),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.driver.maxResultSize": "0",
        **(_EMBEDDED | _class_archive() if embedded else {}),
    }


def _class_archive() -> dict[str, str]:
    options = use_archive()
    return {} if options is None else {"spark.driver.extraJavaOptions": options}


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

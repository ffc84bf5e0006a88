"""Following Spark's tasks while an action runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from nearcast.errors import PipelineError
from nearcast.pipeline.spark_errors import clear_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TaskProgress", "described_jobs", "named_jobs", "watch_tasks"]

_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The tasks of the Spark stages that run now; 0 of 0 between them."""

    stages: tuple[int, ...]
    """Their numbers, which grow from stage to stage."""
    done: int
    failed: int
    total: int


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Let Spark's pages show a name for all jobs of a block, and tell its errors in a sentence."""
    with described_jobs(spark, name), clear_errors(f"stage {name}"):
        yield


@contextmanager
def described_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Let Spark's pages show a name for all jobs of a block."""
    context = spark.sparkContext
    context.setJobDescription(f"nearcast {name}")
    try:
        yield
    finally:
        # The JVM may be gone, which the error of the block says.
        with suppress(Py4JError, OSError):
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


@contextmanager
def watch_tasks(
    spark: SparkSession, on_change: Callable[[TaskProgress], None] | None
) -> Iterator[None]:
    """Tell how far the running stages are while a block runs, whenever that changes.

    `on_change` is called from another thread; it must return fast and not raise. None: do nothing.
    """
    if on_change is None:
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(spark, on_change, stop), name="spark-tasks", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch(
    spark: SparkSession, on_change: Callable[[TaskProgress], None], stop: threading.Event
) -> None:
    tracker = spark.sparkContext.statusTracker()
    last = None
    while not stop.wait(_EVERY_S):
        try:
            with clear_errors("following the tasks"):
                stages = sorted(tracker.getActiveStageIds())
                found = [tracker.getStageInfo(stage) for stage in stages]
        except (PipelineError, OSError):
            return  # the session ended: whoever runs the action hears why
        infos = [info for info in found if info is not None]
        now = TaskProgress(
            stages=tuple(info.stageId for info in infos),
            done=sum(info.numCompletedTasks for info in infos),
            failed=sum(info.numFailedTasks for info in infos),
            total=sum(info.numTasks for info in infos),
        )
        if now != last:
            last = now
            on_change(now)

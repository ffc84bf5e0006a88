"""What Spark's pages call the jobs of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["job_names"]


def job_names(spark: SparkSession) -> set[str]:
    """Return the descriptions of all jobs that Spark still remembers."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    found = (jobs.apply(number).description() for number in range(jobs.length()))
    return {one.get() for one in found if one.isDefined()}

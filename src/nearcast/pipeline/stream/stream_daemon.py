"""The process that Python workers of a stream fork from, with what they need loaded already.

Without numba and its kernels, which `pipeline.worker_daemon` loads for planning: a stream that is
started again should have its first alert soon.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import nearcast.pipeline.stream.alerts_query  # noqa: F401

__all__ = ["main"]


def main() -> None:
    """Fork workers for Spark until it ends."""
    manager()


if __name__ == "__main__":
    main()

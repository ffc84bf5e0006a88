"""The process that Spark's Python workers fork from, with what they need loaded already.

Spark ends idle workers after a minute, and each new one would load pyarrow, numba and compiled
kernels anew: three seconds for every stage that comes later. Spark starts this module as its
``spark.python.daemon.module``.
"""

from __future__ import annotations

import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.planning.relations import RelationKind, relate_clients

__all__ = ["load_kernels"]


def load_kernels() -> None:
    """Relate a few clients: numba's own set-up and the kernel that every run needs."""
    relate_clients(generate_reloc2021(Reloc2021(topics=2), seed=0), 1, RelationKind.COUNTS)


if __name__ == "__main__":
    load_kernels()
    manager()

"""Work cut into numbered blocks, one Spark task each: the way kernels run on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BLOCKS_PER_CORE", "block_count", "map_blocks"]

BLOCKS_PER_CORE = 2
"""Blocks are cut evenly by effort, and a task costs 0.2 s of a Python worker."""


def block_count(spark: SparkSession, items: int, smallest: int = 1) -> int:
    """Return into how many blocks to cut `items`, each of at least `smallest`."""
    wanted = BLOCKS_PER_CORE * spark.sparkContext.defaultParallelism
    return max(min(wanted, items // max(smallest, 1)), 1)


def map_blocks(
    spark: SparkSession,
    count: int,
    compute: Callable[[int], Iterable[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Return the rows that `compute` gives for the blocks 0 to count - 1, one task a block."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                yield from compute(block)

    return spark.range(0, count, 1, numPartitions=count).mapInArrow(run, schema)

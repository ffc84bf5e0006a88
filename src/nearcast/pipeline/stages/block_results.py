"""What a kernel finds in each block, brought to the driver as it is: for results that are small."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from nearcast.errors import NearcastError
from nearcast.pipeline.blocks import map_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["collect_blocks"]

T = TypeVar("T")


def collect_blocks(spark: SparkSession, count: int, compute: Callable[[int], T]) -> list[T]:
    """Return what `compute` gives for the blocks 0 to count - 1, one task a block.

    Raises
    ------
    NearcastError
        What a block raises, without Spark's account of it.
    """

    def rows_of(block: int) -> Iterator[pa.RecordBatch]:
        result: T | NearcastError
        try:
            result = compute(block)
        except NearcastError as error:
            result = error
        packed = pa.array([pickle.dumps(result)], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array([block]), packed], ["block", "result"])

    rows = map_blocks(spark, count, rows_of, "block bigint, result binary").toArrow()
    found = dict(zip(rows["block"].to_pylist(), rows["result"].to_pylist(), strict=True))
    results = [pickle.loads(found[block]) for block in range(count)]
    for result in results:
        if isinstance(result, NearcastError):
            raise result
    return results

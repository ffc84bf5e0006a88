"""Names as numbers: given out by Spark in the order of the log, and joined to the rows.

A list of all names is in no worker's memory, unless it is so short that Spark sends it along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["number_names"]


def number_names(named: DataFrame, index: str, *order: str | Column) -> DataFrame:
    """Return the rows, a name each, in an order that has no ties, and numbered from 0."""
    numbered = named.orderBy(*order).zipWithIndex("number")
    return numbered.withColumn(index, sf.col("number").cast("int")).drop("number")

"""Where stages keep their tables: Parquet folders of a run, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Workspace"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """A run folder and the session that fills it."""

    spark: SparkSession
    folder: Path
    on_plan: Callable[[str, str], None] | None = None
    """Called with a table's name and Spark's physical plan for it, before it is computed."""

    def path(self, table: str) -> Path:
        """Return the folder of a table.

        Absolute: Spark's JVM may have been started in another working directory than ours.
        """
        return self.folder.absolute() / table

    def save(self, table: str, frame: DataFrame) -> int:
        """Write a table and return its rows; an earlier one is replaced."""
        if self.on_plan is not None:
            self.on_plan(table, physical_plan(frame))
        frame.write.mode("overwrite").parquet(str(self.path(table)))
        # Parquet's footers know the count: this reads no data.
        return self.load(table).count()

    def load(self, table: str, schema: StructType | None = None) -> DataFrame:
        """Return a table that an earlier stage wrote."""
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.parquet(str(self.path(table)))


def physical_plan(frame: DataFrame) -> str:
    """Return what ``explain`` prints."""
    return str(frame._jdf.queryExecution().explainString(_mode(frame)))  # noqa: SLF001


def _mode(frame: DataFrame) -> object:
    jvm = frame.sparkSession._jvm  # noqa: SLF001
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]

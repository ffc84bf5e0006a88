"""Where stages keep their tables: Parquet folders of a run, written whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as parquet

from nearcast.pipeline.driver_objects import note_object

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Workspace"]

_ROWS_OF_A_BATCH = 1 << 19


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

    def files(self, table: str) -> list[Path]:
        """Return the files of a table in the order of its parts."""
        return sorted(self.path(table).glob("part-*.parquet"))

    def save(self, table: str, frame: DataFrame) -> int:
        """Let Spark write a table and return its rows; an earlier one is replaced."""
        if self.on_plan is not None:
            self.on_plan(table, physical_plan(frame))
        frame.write.mode("overwrite").parquet(str(self.path(table)))
        return self.count(table)

    def save_rows(self, table: str, rows: pa.Table) -> int:
        """Write a table that the driver holds and return its rows; an earlier one is replaced.

        Spark would first cut it up and send it to tasks.
        """
        with self.replace(table) as partial:
            parquet.write_table(rows, partial / "part-000000.parquet")
        return len(rows)

    def save_batches(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write a table of which the driver holds a batch at a time, as `save_rows` does."""
        rows = 0
        with (
            self.replace(table) as partial,
            parquet.ParquetWriter(partial / "part-000000.parquet", schema) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
                rows += len(batch)
        return rows

    def load(self, table: str, schema: StructType | None = None) -> DataFrame:
        """Return a table that an earlier stage wrote."""
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.parquet(str(self.path(table)))

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a table in memory."""
        wanted = None if columns is None else list(columns)
        found = pa.concat_tables(
            parquet.read_table(file, columns=wanted) for file in self.files(table)
        )
        note_object(table, found.nbytes)
        return found

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give columns of a table piece by piece, in the order of its parts."""
        for path in self.files(table):
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS_OF_A_BATCH, columns=list(columns)):
                    note_object(f"a piece of {table}", batch.nbytes)
                    yield batch.select(list(columns))

    def hand_over(self, rows: pa.Table) -> DataFrame:
        """Return few rows of the driver as a frame of one part, which Spark never shuffles."""
        return self.spark.createDataFrame(rows).coalesce(1)

    def count(self, table: str) -> int:
        """Return the rows of a table; Parquet's footers know them, so this reads no data."""
        return sum(parquet.read_metadata(file).num_rows for file in self.files(table))

    def mapped(self, rows: int, kind: Any) -> npt.NDArray[Any]:
        """Return an array that is mapped from a file without a name.

        Its pages are the system's to keep or to drop, and go when nobody uses it any more.
        """
        if not rows:
            return np.empty(0, kind)
        file = self.path(f"_mapped.{uuid.uuid4().hex[:12]}.npy")
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return np.asarray(np.lib.format.open_memmap(file, "w+", kind, (rows,)))
        finally:
            # The mapping keeps it until it is dropped, and a kill leaves nothing behind.
            file.unlink(missing_ok=True)

    @contextmanager
    def replace(self, table: str) -> Iterator[Path]:
        """Give an empty folder that becomes the table's when the block ends without an error."""
        folder = self.path(table)
        partial = folder.with_name(f"_{table}.{uuid.uuid4().hex[:12]}")
        partial.mkdir(parents=True)
        try:
            yield partial
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def physical_plan(frame: DataFrame) -> str:
    """Return what ``explain`` prints."""
    return str(frame._jdf.queryExecution().explainString(_mode(frame)))  # noqa: SLF001


def _mode(frame: DataFrame) -> object:
    jvm = frame.sparkSession._jvm  # noqa: SLF001
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]

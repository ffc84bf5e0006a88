"""Tables that come to the driver: with room for texts of more than 2 GB, and noted by size.

Arrow's strings have offsets of 32 bits, so that 60 million ids of 36 characters do not fit one
array: joined, only the first part would remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nearcast.pipeline.driver_objects import note_object

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["collect", "long_texts", "sorted_rows"]


def collect(frame: DataFrame, name: str) -> pa.Table:
    """Return the rows of a frame, texts with long offsets."""
    found = long_texts(frame.toArrow())
    note_object(name, found.nbytes)
    return found


def long_texts(table: pa.Table) -> pa.Table:
    """Return the table with texts of any length in all."""
    fields = [
        field.with_type(pa.large_string()) if pa.types.is_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def sorted_rows(table: pa.Table, column: str) -> pa.Table:
    """Return the rows in order, each column in one piece."""
    return table.sort_by(column).combine_chunks()

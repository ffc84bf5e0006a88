"""Names as numbers: looked up on the workers in a list that all of them map into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["gather", "index_of", "name_arrays", "names_in"]

_ROWS_AT_ONCE = 1_000_000
"""Each lookup builds a table of all names, so that it should be for many rows."""


def name_arrays(kind: str, names: pa.Array) -> dict[str, npt.NDArray[Any]]:
    """Return a list of names as two arrays that `share_arrays` takes."""
    names = names.cast(pa.large_string())
    _, offsets, texts = names.buffers()
    start = np.frombuffer(offsets, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(texts, dtype=np.uint8) if texts is not None else np.empty(0, np.uint8)
    return {f"{kind}_start": start, f"{kind}_text": text}


def names_in(shared: Mapping[str, npt.NDArray[Any]], kind: str) -> pa.Array:
    """Return the list that `name_arrays` made, without copying it."""
    start = shared[f"{kind}_start"]
    buffers = [pa.py_buffer(start), pa.py_buffer(shared[f"{kind}_text"])]
    return pa.LargeStringArray.from_buffers(len(start) - 1, *buffers)


def index_of(texts: pa.ChunkedArray, names: pa.Array) -> pa.ChunkedArray:
    """Return the place of each text in the list; null where it is not there."""
    return pc.index_in(texts.cast(pa.large_string()), value_set=names, skip_nulls=True)


def gather(batches: Iterable[pa.RecordBatch], rows: int = _ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """Return the batches of a task in tables of about so many rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(part) for part in waiting) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)

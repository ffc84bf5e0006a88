"""Arrays of texts: with offsets of 32 bits where these suffice, else of 64.

Arrow's usual strings end at 2 GB an array, which 60 million ids of 36 characters fill.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["MOST_SHORT_BYTES", "as_texts", "in_one_piece", "is_text", "lengthened", "shortened"]

MOST_SHORT_BYTES = 2**31 - 1


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of the two of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_texts(ids: pa.Array) -> pa.Array:
    """Return ids as texts, integers as their digits."""
    return ids if is_text(ids.type) else ids.cast(pa.string())


def lengthened(texts: pa.Array) -> pa.Array:
    """Return texts with long offsets."""
    return texts.cast(pa.large_string())


def shortened(texts: pa.Array) -> pa.Array:
    """Return texts with the usual offsets, if they are short enough in all."""
    if not pa.types.is_large_string(texts.type) or texts.nbytes > MOST_SHORT_BYTES:
        return texts
    return texts.cast(pa.string())


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of any type as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes > MOST_SHORT_BYTES:
        column = column.cast(pa.large_string())
    return column.combine_chunks()

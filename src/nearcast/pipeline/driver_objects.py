"""The largest table or array that the driver held in a stage: what must not grow with the rows.

Everything of size that comes to the driver goes through few functions; these note it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LargestObject", "is_mapped", "note_object", "watch_objects"]


@dataclass(slots=True)
class LargestObject:
    """The largest one so far; memory that is mapped from a file does not count."""

    name: str = ""
    size_bytes: int = 0


_current: ContextVar[LargestObject | None] = ContextVar("largest_object", default=None)


@contextmanager
def watch_objects() -> Iterator[LargestObject]:
    """Give the largest object that is noted in the block."""
    largest = LargestObject()
    before = _current.set(largest)
    try:
        yield largest
    finally:
        _current.reset(before)


def note_object(name: str, size_bytes: int) -> None:
    """Tell of a table or an array in the driver's memory."""
    largest = _current.get()
    if largest is not None and size_bytes > largest.size_bytes:
        largest.name, largest.size_bytes = name, size_bytes


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Return whether an array, or what it is a view of, is mapped from a file."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False

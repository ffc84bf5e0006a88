"""The garbage collector of a process that has to answer in time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["freeze_gc", "without_gc"]

_YOUNG_OBJECTS = 10_000
"""New objects before a search for cycles: messages make many objects and no cycles."""


def freeze_gc() -> None:
    """Leave out of later searches for cycles what is there now: they would stop the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)


@contextmanager
def without_gc() -> Iterator[None]:
    """Search for no cycles meanwhile: what measures delays must not add its own pauses to them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

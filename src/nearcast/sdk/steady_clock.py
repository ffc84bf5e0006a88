"""The time that sessions go by: Unix time that never runs backwards."""

from __future__ import annotations

import time

__all__ = ["steady_now"]

_OFFSET_S = time.time() - time.monotonic()


def steady_now() -> float:
    """Return the wall clock at the start of the program plus what was counted since."""
    return _OFFSET_S + time.monotonic()

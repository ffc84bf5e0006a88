"""How long to wait before the next try; the one rule for all that is tried again."""

from __future__ import annotations

__all__ = ["next_wait_s"]


def next_wait_s(wait_s: float, longest_s: float, first_s: float = 0.0) -> float:
    """Return the wait that follows another one: twice as long, up to the longest.

    Where no wait came before (0), `first_s` is the first one.
    Where many may fail together, the caller takes a random part away or adds one, and keeps the
    wait without it.
    """
    return min(max(2 * wait_s, first_s), longest_s)

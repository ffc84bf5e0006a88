"""What routers need of a source of random numbers; `random.Random` is one."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Chance"]


class Chance(Protocol):
    """A source of random numbers."""

    def getrandbits(self, bits: int, /) -> int:
        """Return a number of `bits` bits."""

    def randrange(self, low: int, high: int, /) -> int:
        """Return a number from low up to, not with, high."""

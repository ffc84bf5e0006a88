"""Which messages of an outbox were processed: all below a floor, and some above it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["TakenNumbers"]


@dataclass(slots=True)
class TakenNumbers:
    """Numbers of one outbox that were taken, each once."""

    floor: int = 0
    """All below it are done: its outbox said so."""
    above: set[int] = field(default_factory=set)

    def __contains__(self, number: int) -> bool:
        return number < self.floor or number in self.above

    def raise_floor(self, floor: int) -> None:
        """Forget the single numbers below a floor."""
        if floor > self.floor:
            self.floor = floor
            self.above = {one for one in self.above if one >= floor}

    def unite(self, floor: int, numbers: Iterable[int]) -> None:
        """Take in what another one has."""
        self.above.update(numbers)
        self.raise_floor(floor)

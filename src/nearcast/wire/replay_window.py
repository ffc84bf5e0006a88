"""Which of the latest numbers have been seen: one integer as a bitmap."""

from __future__ import annotations

__all__ = ["ReplayWindow"]


class ReplayWindow:
    """Remembers each number among the `size` numbers up to the highest seen."""

    __slots__ = ("_mask", "_size", "bitmap", "highest")

    def __init__(self, size: int) -> None:
        self._size = size
        self._mask = (1 << size) - 1
        self.highest = -1
        """Highest number seen; -1 before the first."""
        self.bitmap = 0
        """Bit n: number `highest - n` was seen."""

    def is_new(self, number: int) -> bool:
        """Tell whether the number was surely not seen: too old ones count as seen."""
        age = self.highest - number
        return age < 0 or (age < self._size and not self.bitmap >> age & 1)

    def is_too_old(self, number: int) -> bool:
        """Tell whether the number lies before the window."""
        return self.highest - number >= self._size

    def mark(self, number: int) -> None:
        """Remember the number as seen; one before the window changes nothing."""
        age = self.highest - number
        if age < 0:
            # A jump beyond the window leaves nothing of the old bitmap: no giant shift.
            self.bitmap = (self.bitmap << -age & self._mask | 1) if -age < self._size else 1
            self.highest = number
        elif age < self._size:
            self.bitmap |= 1 << age

"""Which of the latest numbers have been seen: the missing ones as a bitmap."""

from __future__ import annotations

__all__ = ["ReplayWindow"]


class ReplayWindow:
    """Remembers each number among the `size` numbers up to the highest seen.

    It keeps the numbers that are missing, not those that were seen: while all come in order that
    is 0, however large the window.
    """

    __slots__ = ("_missing", "_size", "highest")

    def __init__(self, size: int) -> None:
        self._size = size
        self.highest = -1
        """Highest number seen; -1 before the first."""
        self._missing = 0
        """Bit n: number `highest - n` was not seen."""

    @property
    def bitmap(self) -> int:
        """Bit n: number `highest - n` was seen; as many bits as the window has."""
        return ~self._missing & (1 << min(self._size, self.highest + 1)) - 1

    @property
    def through(self) -> int:
        """Up to this number all of the window were seen; -1 before the first."""
        return self.highest - self._missing.bit_length()

    def is_new(self, number: int) -> bool:
        """Tell whether the number was surely not seen: too old ones count as seen."""
        age = self.highest - number
        return age < 0 or (age < self._size and bool(self._missing >> age & 1))

    def is_too_old(self, number: int) -> bool:
        """Tell whether the number lies before the window."""
        return self.highest - number >= self._size

    def take(self, number: int) -> bool:
        """Mark the number, and tell whether it was new."""
        if number == self.highest + 1:
            if self._missing:
                self._missing = self._missing << 1 & (1 << self._size) - 1
            self.highest = number
            return True
        is_new = self.is_new(number)
        self.mark(number)
        return is_new

    def mark(self, number: int) -> None:
        """Remember the number as seen; one before the window changes nothing."""
        ahead = number - self.highest
        if ahead > 0:
            # A jump beyond the window leaves nothing of the old bitmap: no giant shift.
            ahead = min(ahead, self._size)
            between = (1 << ahead) - 2
            self._missing = (self._missing << ahead | between) & (1 << self._size) - 1
            self.highest = number
        elif -ahead < self._size:
            self._missing &= ~(1 << -ahead)

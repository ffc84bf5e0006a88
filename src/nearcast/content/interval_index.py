"""Which of many intervals contain a number.

Half-lines stand in sorted lists, and all that are found count. Intervals with two ends stand in
cells of about their length, three at most, so that a number looks into one cell of each size.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

__all__ = ["IntervalIndex"]

Cell = tuple[int, int]


class IntervalIndex:
    """Closed intervals of numbers, each with the number of a row; a row may have several."""

    def __init__(self) -> None:
        self._from: list[tuple[float, int]] = []
        """Half-lines upwards by their lower end, with their rows."""
        self._to: list[tuple[float, int]] = []
        """Half-lines downwards by their upper end."""
        self._cells: dict[Cell, dict[tuple[float, float, int], None]] = {}
        self._cells_of_level: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._from or self._to or self._cells)

    def add(self, low: float, high: float, row: int) -> None:
        """Add an interval; one end may be infinite."""
        if math.isinf(high):
            insort(self._from, (low, row))
        elif math.isinf(low):
            insort(self._to, (high, row))
        else:
            for cell in _cells(low, high):
                if cell not in self._cells:
                    self._cells[cell] = {}
                    self._cells_of_level[cell[0]] = self._cells_of_level.get(cell[0], 0) + 1
                self._cells[cell][low, high, row] = None

    def remove(self, low: float, high: float, row: int) -> None:
        """Remove an interval that was added."""
        if math.isinf(high):
            del self._from[bisect_left(self._from, (low, row))]
        elif math.isinf(low):
            del self._to[bisect_left(self._to, (high, row))]
        else:
            for cell in _cells(low, high):
                del self._cells[cell][low, high, row]
                if not self._cells[cell]:
                    del self._cells[cell]
                    self._cells_of_level[cell[0]] -= 1
                    if not self._cells_of_level[cell[0]]:
                        del self._cells_of_level[cell[0]]

    def containing(self, value: float) -> Iterator[int]:
        """Return the rows of the intervals that contain a number, some perhaps twice."""
        for _, row in self._from[: bisect_right(self._from, (value, math.inf))]:
            yield row
        for _, row in self._to[bisect_left(self._to, (value, -math.inf)) :]:
            yield row
        for level in self._cells_of_level:
            for low, high, row in self._cells.get((level, _place(value, level)), ()):
                if low <= value <= high:
                    yield row


def _cells(low: float, high: float) -> list[Cell]:
    # halves, since the difference of two large numbers may be infinite
    level = math.frexp(high / 2 - low / 2)[1] if high > low else -1074
    return [(level, place) for place in range(_place(low, level), _place(high, level) + 1)]


def _place(value: float, level: int) -> int:
    """Return the cell of a number among those of length 2^level, as exact as whole numbers are."""
    numerator, denominator = value.as_integer_ratio()
    return (
        numerator // (denominator << level) if level >= 0 else (numerator << -level) // denominator
    )

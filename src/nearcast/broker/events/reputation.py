"""How far each reporter is believed: what it said before, against what turned out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Reputation", "ReputationParams"]


@dataclass(frozen=True, slots=True)
class ReputationParams:
    """How reputation is gained and lost."""

    first_good: float = 2.0
    first_bad: float = 1.0
    """What a reporter begins with: the weight is the share of good, 2/3."""
    bad_counts: float = 3.0
    """How many times as much a lie counts as a true report: lost sooner than gained."""
    fading: float = 0.98
    """What is left of the past after each new word."""
    most_reporters: int = 100_000


class Reputation:
    """Weights between 0 and 1."""

    def __init__(self, params: ReputationParams | None = None) -> None:
        self._params = params or ReputationParams()
        self._words: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._words)

    def weight(self, reporter: str) -> float:
        """Return how far a reporter is believed."""
        good, bad = self._words.get(reporter, (0.0, 0.0))
        params = self._params
        good, bad = good + params.first_good, bad + params.first_bad
        return good / (good + bad)

    def total(self, reporters: Iterable[str]) -> float:
        """Return the sum of weights."""
        return sum(map(self.weight, reporters))

    def confirm(self, reporter: str) -> None:
        """Count a word that turned out to be true."""
        self._count(reporter, 1.0, 0.0)

    def refute(self, reporter: str) -> None:
        """Count a word that turned out to be false, or could not be true."""
        self._count(reporter, 0.0, self._params.bad_counts)

    def _count(self, reporter: str, good: float, bad: float) -> None:
        old_good, old_bad = self._words.pop(reporter, (0.0, 0.0))
        fading = self._params.fading
        self._words[reporter] = fading * old_good + good, fading * old_bad + bad
        if len(self._words) > self._params.most_reporters:
            del self._words[next(iter(self._words))]  # who was judged longest ago

"""What a reproduced figure is: the cells it needs, and what comes out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from matplotlib.figure import Figure

from nearcast.pipeline.sweep.cell import SweepCell

__all__ = [
    "FULL",
    "PAPER_NAMES",
    "SMALL",
    "CsvRow",
    "Effort",
    "FigureResult",
    "FindingKind",
    "PaperFigure",
    "SweepRows",
    "Verdict",
    "beside",
    "judge",
    "paper_name",
    "tally",
]

CsvRow = dict[str, str | int | float | None]
SweepRows = Mapping[SweepCell, Mapping[str, Any]]
"""The row of each cell: its metrics and limits by name, and the use of each server."""

PAPER_NAMES = {
    "random": "RA",
    "nearest": "NS",
    "region": "LO",
    "relation": "RELO",
    "otos": "OTOS",
    "reloc": "RELOC",
}
"""The papers' names of the methods they compare."""


def paper_name(method: str) -> str:
    """Return the paper's name of a method, or our own where the papers do not have it."""
    return PAPER_NAMES.get(method, method)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a reproduction does."""

    seeds_2020: int = 10
    seeds_2021: int = 20
    seeds_2022: int = 10
    trials_lasr: int = 10
    trials_live: int = 0
    """Of the LASR experiment with real processes, each some 15 s long; 0: in virtual time only."""
    iterations: int = 1_000_000
    """Of `optimised`."""
    bound_limit_s: float = 0.5
    """Seconds to prove the bound of a cell."""
    few_points: bool = False
    """Take two or three points of each axis only."""
    follows: str | None = None
    """A follower graph to take the topics of 2020 and 2021 from, instead of the generators."""

    def with_seeds(self, seeds: int) -> Effort:
        """Return the same with one number of seeds for all papers."""
        return replace(
            self, seeds_2020=seeds, seeds_2021=seeds, seeds_2022=seeds, trials_lasr=seeds
        )


FULL = Effort()
SMALL = Effort(
    seeds_2020=1,
    seeds_2021=2,
    seeds_2022=1,
    trials_lasr=1,
    iterations=50_000,
    bound_limit_s=0.1,
    few_points=True,
)


class FindingKind(StrEnum):
    """Whether a verdict could have come out otherwise; only tests count in a headline."""

    INPUT = "input"
    """A number of the setting, which the generator was given."""
    BY_CONSTRUCTION = "by construction"
    """Follows from a definition or from how the method works."""
    CALIBRATED = "calibrated"
    """Something that the paper leaves open was chosen because it makes this agree."""
    TEST = "test"
    """Could have come out otherwise."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One finding of a paper against what came out here."""

    finding: str
    """As the paper's text states it."""
    ours: str
    agrees: bool
    kind: FindingKind = FindingKind.TEST
    why: str = ""
    elsewhere: tuple[str, ...] = ()
    """What comes out under other settings or readings that the paper leaves open."""


def judge(
    finding: str,
    agrees: bool,
    ours: str,
    *,
    kind: FindingKind = FindingKind.TEST,
    if_so: str = "",
    if_not: str = "",
) -> Verdict:
    """Return a verdict whose reason depends on how it came out."""
    return Verdict(finding, ours, bool(agrees), kind, if_so if agrees else if_not)


def beside(verdicts: Sequence[Verdict], others: Sequence[Verdict], setting: str) -> list[Verdict]:
    """Return the verdicts, each with the one on the same finding under another setting."""
    return [
        replace(
            one,
            elsewhere=(
                *one.elsewhere,
                f"{setting}: {'agrees' if other.agrees else 'does not agree'} ({other.ours})",
            ),
        )
        for one, other in zip(verdicts, others, strict=True)
    ]


def tally(verdicts: Sequence[Verdict]) -> dict[FindingKind, tuple[int, int]]:
    """Return how many verdicts of each kind agree, and how many there are."""
    return {
        kind: (sum(one.agrees for one in mine), len(mine))
        for kind in FindingKind
        for mine in [[one for one in verdicts if one.kind is kind]]
    }


@dataclass(frozen=True, slots=True, eq=False)
class FigureResult:
    """What a figure shows: its numbers, the verdicts drawn from them, and pictures."""

    rows: Sequence[CsvRow]
    verdicts: Sequence[Verdict]
    pictures: Mapping[str, Figure]
    """By a short name; the first one is the figure itself."""
    alternative: str
    """What a reader who cannot see the picture should know."""
    notes: Sequence[str] = field(default_factory=list)
    """What the paper does not have: the optimised plan, the limits, choices made."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What verdicts were computed from, where it is not in `rows`."""


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure of a paper."""

    name: str
    """Year and number, such as 2021-14; or lasr-fig6."""
    title: str
    cells: Callable[[Effort], list[SweepCell]]
    """What to plan; empty where a single example is all."""
    result: Callable[[Effort, SweepRows], FigureResult]

"""Means over seeds and servers with their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.experiments.figures.figure import CsvRow, SweepRows
from nearcast.pictures.sweep_panels import Line
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["Curves", "Interval", "Point", "interval_of", "pooled_interval", "summarise"]

_CONFIDENCE = 0.95
_FEWEST = 3
"""Two values have an interval of 13 standard deviations, which says nothing."""
_PER_SERVER = ("storage_used", "compute_used")
_PER_SEED = (
    "Y", "Y1", "Y2", "Y3", "bound", "speed_ms", "one_server_ms", "nearest_legs_ms", "members",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a line: the same setting and method over several seeds."""

    x: float
    line: str
    cells: tuple[SweepCell, ...]


def interval_of(values: npt.ArrayLike) -> Interval:
    """Return the mean with Student's t interval, which fewer than three values do not have."""
    array = np.asarray(values, dtype=np.float64)
    sd = float(array.std(ddof=1)) if len(array) > 1 else 0.0
    return _student(float(array.mean()), sd, len(array))


def pooled_interval(
    means: Sequence[float], sds: Sequence[float], counts: Sequence[int]
) -> Interval:
    """Return the interval over all values of several groups of which only these are known."""
    mean, sd, count = np.array(means), np.array(sds), np.array(counts)
    total = int(count.sum())
    overall = float(np.sum(count * mean) / total)
    squares = float(np.sum((count - 1) * sd**2 + count * (mean - overall) ** 2))
    return _student(overall, (squares / (total - 1)) ** 0.5 if total > 1 else 0.0, total)


def _student(mean: float, sd: float, count: int) -> Interval:
    from scipy.stats import t

    if count < _FEWEST:
        return Interval(mean, math.nan, math.nan)
    half = float(t.ppf(0.5 + _CONFIDENCE / 2, count - 1)) * sd / count**0.5
    return Interval(mean, mean - half, mean + half)


class Curves:
    """Intervals by line, x and metric, in the order in which they were given."""

    def __init__(self, values: dict[tuple[str, float], dict[str, Interval]]) -> None:
        self._values = values

    @property
    def lines(self) -> list[str]:
        """The names of the lines."""
        return list(dict.fromkeys(line for line, _ in self._values))

    def xs(self, line: str) -> list[float]:
        """Return where a line has points, rising."""
        return sorted(x for name, x in self._values if name == line)

    def mean(self, line: str, x: float, metric: str) -> float:
        """Return the mean of a metric at a point."""
        return self._values[line, x][metric].mean

    def interval(self, line: str, x: float, metric: str) -> Interval:
        """Return a metric at a point."""
        return self._values[line, x][metric]

    def means(self, line: str, metric: str) -> list[float]:
        """Return the means along a line."""
        return [self.mean(line, x, metric) for x in self.xs(line)]

    def at(self, xs: Container[float]) -> Curves:
        """Return the points at some x only."""
        return Curves({key: value for key, value in self._values.items() if key[1] in xs})

    def instead(self, line: str, other: str) -> Curves:
        """Return the same with another line in the place of one."""
        kept = {key: value for key, value in self._values.items() if key[0] not in (line, other)}
        moved = {(line, x): value for (name, x), value in self._values.items() if name == other}
        return Curves(kept | moved)

    def has(self, line: str, metric: str) -> bool:
        """Return whether a line has a metric at every point."""
        return all(metric in self._values[line, x] for x in self.xs(line))

    def drawn(self, line: str, metric: str, label: str, **look: Any) -> Line:
        """Return a line to draw."""
        found = [self.interval(line, x, metric) for x in self.xs(line)]
        return Line(
            label,
            np.array(self.xs(line)),
            np.array([one.mean for one in found]),
            np.array([one.low for one in found]),
            np.array([one.high for one in found]),
            **look,
        )

    def csv_rows(self, x_name: str, line_name: str) -> list[CsvRow]:
        """Return a row a point, with mean and interval of every metric."""
        rows: list[CsvRow] = []
        for (line, x), metrics in self._values.items():
            row: CsvRow = {x_name: x, line_name: line}
            for metric, one in metrics.items():
                row[metric] = one.mean
                for end, value in (("low", one.low), ("high", one.high)):
                    row[f"{metric}_{end}"] = None if math.isnan(value) else value
            rows.append(row)
        return rows


def summarise(points: Iterable[Point], rows: SweepRows) -> Curves:
    """Return the intervals of all metrics at each point.

    Metrics of a plan over the seeds; the use of servers over servers x seeds; the distance to
    the home (``home_km``) over clients x seeds.
    """
    values = {}
    for point in points:
        mine = [rows[cell] for cell in point.cells]
        found = {
            metric: interval_of([row[metric] for row in mine])
            for metric in _PER_SEED
            if all(row.get(metric) is not None for row in mine)
        }
        for metric in _PER_SERVER:
            found[metric] = interval_of(np.concatenate([row[metric] for row in mine]))
        found["home_km"] = pooled_interval(
            [row["home_km_mean"] for row in mine],
            [row["home_km_sd"] for row in mine],
            [row["clients"] for row in mine],
        )
        values[point.line, point.x] = found
    return Curves(values)

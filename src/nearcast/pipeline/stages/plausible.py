"""What a row may say: limits of single values, and of how far a few rows may be from all others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

__all__ = [
    "LARGEST_KM",
    "LARGEST_SIZE",
    "Plausibility",
    "StrayLimits",
    "moment_s",
    "range_columns",
    "stray_reason",
    "strays_of",
]

LARGEST_SIZE = 1e9
LARGEST_KM = 50_000.0
"""More than once around the earth."""
_DAY_S = 86_400.0
_MIDDLE = (0.1, 0.9)
_FEWEST_ROWS = 20
"""From so many on, one row may be a stray whatever its share."""
_NEVER_FAR = {
    "time_s": _DAY_S,
    "x_km": 1_000.0,
    "y_km": 1_000.0,
    "latitude": 10.0,
    "longitude": 10.0,
    "size": 0.0,
}
"""What is never far from the middle rows, in the columns that have strays."""


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Limits beyond which a row is put aside."""

    largest_size: float = LARGEST_SIZE
    largest_km: float = LARGEST_KM
    """Of x_km and y_km, to either side of 0."""
    earliest: float | str | None = None
    """First plausible moment, in seconds or as an ISO date; None: any."""
    latest: float | str | None = None
    """Last plausible moment; None: a day after the run begins."""
    zero_degrees: bool = False
    """Whether latitude 0, longitude 0 is a place, not what a device without a fix says."""

    def __post_init__(self) -> None:
        for name in ("largest_size", "largest_km"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)}")
        first, last = moment_s(self.earliest), moment_s(self.latest)
        if first is not None and last is not None and first > last:
            raise ConfigError(f"earliest {self.earliest} is after latest {self.latest}")

    def reason(self, reason: Column, axes: tuple[str, str], now_s: float) -> Column:
        """Return the chain of reasons with those that these limits add."""
        first_s, last_s = self._window_s(now_s)
        time_s, size = sf.col("time_s"), sf.col("size")
        x, y = (sf.col(axis) for axis in axes)
        late = time_s > last_s
        reason = reason.when(
            late & (time_s / 1000).between(first_s, last_s) & (time_s > 1e10),
            "time is out of range, as if it were in milliseconds",
        )
        reason = reason.when(late | (time_s < first_s), "time is out of range")
        reason = reason.when((size < 0) | (size > self.largest_size), "size is out of range")
        limits = (90.0, 180.0) if axes[0] == "latitude" else (self.largest_km, self.largest_km)
        is_far = (sf.abs(x) > limits[0]) | (sf.abs(y) > limits[1])
        reason = reason.when(is_far, "position is out of range")
        if axes[0] == "latitude" and not self.zero_degrees:
            reason = reason.when((x == 0) & (y == 0), "position is 0, 0")
        return reason

    def notes(self, axes: tuple[str, str], now_s: float) -> dict[str, Any]:
        """Return the limits in force, for the manifest."""
        first_s, last_s = self._window_s(now_s)
        notes: dict[str, Any] = {"largest_size": self.largest_size, "latest_s": last_s}
        if math.isfinite(first_s):
            notes["earliest_s"] = first_s
        if axes[0] == "latitude":
            return {**notes, "zero_degrees": self.zero_degrees}
        return {**notes, "largest_km": self.largest_km}

    def _window_s(self, now_s: float) -> tuple[float, float]:
        first, last = moment_s(self.earliest), moment_s(self.latest)
        return (-math.inf if first is None else first, now_s + _DAY_S if last is None else last)


def moment_s(moment: float | str | None) -> float | None:
    """Return a moment in seconds; a date without a zone is in UTC.

    Raises
    ------
    ConfigError
        When it is neither.
    """
    if moment is None:
        return None
    try:
        seconds = float(moment)
    except ValueError:
        seconds = _date_s(str(moment))
    if not math.isfinite(seconds):
        raise ConfigError(f"{moment!r} is neither seconds nor an ISO date")
    return seconds


def _date_s(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is neither seconds nor an ISO date") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class StrayLimits:
    """When a few rows are so far from all others that they are put aside."""

    share: float = 0.01
    """Share of rows up to which they are strays, one at least; more are a part of the log. With 0
    there are none."""
    widths: float = 100.0
    """A stray is farther from the middle eight tenths of the rows than so many of their widths,
    and a size than so many times the largest of them."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.1:
            raise ConfigError(f"the share of strays must be in [0, 0.1), not {self.share}")
        if not 0 < self.widths < math.inf:
            raise ConfigError(f"widths must be a positive number, not {self.widths}")

    def most(self, rows: int) -> int:
        """Return how many strays there may be among so many rows."""
        least = 1 if self.share > 0 and rows >= _FEWEST_ROWS else 0
        return max(int(self.share * rows), least)


def stray_columns(columns: Iterable[str]) -> list[str]:
    """Return those of the columns that may have strays."""
    return [column for column in columns if column in _NEVER_FAR]


def range_columns(columns: Iterable[str]) -> list[Column]:
    """Return what to aggregate so that `strays_of` can tell whether there may be any."""
    return [
        sf.struct(
            sf.min(column).alias("smallest"),
            sf.max(column).alias("largest"),
            sf.percentile_approx(column, list(_MIDDLE), 10_000).alias("middle"),
        ).alias(column)
        for column in stray_columns(columns)
    ]


def strays_of(rows: DataFrame, ranges: Row, limits: StrayLimits) -> dict[str, Column]:
    """Return by column which rows are far from all others, where some but not too many are.

    A clock that was never set would else stretch the time span to decades, one lost position the
    field to a continent, and one size the mean of its topic. More are never left out: a log of
    two times or two cities is one.

    Parameters
    ----------
    ranges : the number of `rows`, and their `range_columns`.
    """
    far: dict[str, Column] = {}
    for column in stray_columns(rows.columns):
        if ranges[column].middle is None:
            continue
        low, high = ranges[column].middle
        widest = high if column == "size" else high - low
        reach = max(limits.widths * widest, _NEVER_FAR[column])
        if ranges[column].smallest < low - reach or ranges[column].largest > high + reach:
            far[column] = ~_is_near(column, low - reach, high + reach)
    if not far:
        return {}
    counts = rows.agg(*(sf.count_if(is_far).alias(name) for name, is_far in far.items())).first()
    most = limits.most(ranges.rows)
    return {name: is_far for name, is_far in far.items() if 0 < counts[name] <= most}  # type: ignore[index]


def stray_reason(column: str) -> str:
    """Return why a stray of a column is put aside."""
    name = {"time_s": "time", "size": "size"}.get(column, "position")
    return f"{name} is far from all others"


def _is_near(column: str, first: float, last: float) -> Column:
    cell = sf.col(column)
    is_near = cell.isNull() | cell.between(first, last)
    if column == "longitude":
        # Beside the date line neighbours are 360 degrees apart.
        is_near |= (cell + 360).between(first, last) | (cell - 360).between(first, last)
    return is_near

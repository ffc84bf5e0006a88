"""What a row may say: limits of single values, and of how far a few rows may be from all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
    "moment_s",
    "range_columns",
    "stray_limits",
    "without_strays",
]

LARGEST_SIZE = 1e9
LARGEST_KM = 50_000.0
"""More than once around the earth."""
_DAY_S = 86_400.0
_MIDDLE = (0.05, 0.95)
_WIDTHS = 100.0
"""A stray is farther from the middle nine tenths of the rows than so many of their widths."""
_MOST_STRAYS = 0.01
"""Share of rows up to which they are strays; more of them are a part of the log."""


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


def range_columns(columns: Iterable[str]) -> list[Column]:
    """Return what to aggregate so that `stray_limits` can tell whether there may be strays."""
    return [
        sf.struct(
            sf.min(column).alias("smallest"),
            sf.max(column).alias("largest"),
            sf.percentile_approx(column, list(_MIDDLE), 10_000).alias("middle"),
        ).alias(column)
        for column in columns
    ]


def stray_limits(ranges: Row, slack: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return where strays begin, in the columns that have any.

    Parameters
    ----------
    ranges : the `range_columns` of all rows.
    slack : the columns, and what is never far from the middle rows.
    """
    limits: dict[str, tuple[float, float]] = {}
    for column, least in slack.items():
        low, high = ranges[column].middle
        reach = max(_WIDTHS * (high - low), least)
        if ranges[column].smallest < low - reach or ranges[column].largest > high + reach:
            limits[column] = (low - reach, high + reach)
    return limits


def without_strays(
    rows: DataFrame, count: int, limits: Mapping[str, tuple[float, float]]
) -> tuple[DataFrame, dict[str, int]]:
    """Return the rows without the few that are far from all others, and their numbers by column.

    A clock that was never set would else stretch the time span to decades, and one lost position
    the field to a continent. More than a hundredth of the rows is never left out: a log of two
    times or two cities is one.
    """
    if not limits:
        return rows, {}
    inside = {column: sf.col(column).between(*ends) for column, ends in limits.items()}
    far = rows.agg(*(sf.count_if(~near).alias(name) for name, near in inside.items())).first()
    strays = {name: far[name] for name in limits if far[name] <= _MOST_STRAYS * count}  # type: ignore[index]
    for column in strays:
        rows = rows.where(inside[column])
    return rows, strays

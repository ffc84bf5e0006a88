"""Bins: reports of one kind at one location, as count, running centre and radius."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from nearcast.broker.events.report import EventReport

__all__ = ["Bin", "Bins"]


@dataclass(slots=True)
class Bin:
    """Reports at one location since the bins were emptied."""

    x_km: float
    y_km: float
    count: int = 0
    radius_km: float = 0.0
    """No report is farther from the centre; may be larger than needed after the centre moved."""
    last_s: float = -math.inf
    reporters: dict[str, None] = field(default_factory=dict)

    def add(self, report: EventReport) -> None:
        """Take a report in: the centre is the mean of all."""
        self.count += 1
        east, north = report.x_km - self.x_km, report.y_km - self.y_km
        self.x_km += east / self.count
        self.y_km += north / self.count
        moved_km = math.hypot(east, north) / self.count
        away_km = math.hypot(report.x_km - self.x_km, report.y_km - self.y_km)
        self.radius_km = max(self.radius_km + moved_km, away_km)
        self.last_s = max(self.last_s, report.time_s)
        self.reporters[report.reporter] = None


class Bins:
    """The bins of one kind.

    Parameters
    ----------
    reach_km
        A report belongs to the nearest bin whose centre is so near, or else begins one.
    most_bins
        More are refused until the bins are emptied.
    most_reports
        Of one reporter until the bins are emptied; others of it are refused.
    """

    def __init__(self, reach_km: float, most_bins: int, most_reports: int) -> None:
        self._reach_km = reach_km
        self._most_bins = most_bins
        self._most_reports = most_reports
        self._cells: dict[tuple[int, int], list[Bin]] = {}
        self._count = 0
        self._reports_of: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Bin]:
        return (one for cell in self._cells.values() for one in cell)

    def add(self, report: EventReport) -> Bin | None:
        """Return the bin that took the report; None when there is no room for it."""
        reports = self._reports_of.get(report.reporter, 0)
        if reports >= self._most_reports:
            return None
        found = self._nearest(report)
        if found is None:
            if self._count >= self._most_bins:
                return None
            self._count += 1
            found = Bin(report.x_km, report.y_km)
        else:
            self._cells[self._cell(found)].remove(found)
        found.add(report)
        self._cells.setdefault(self._cell(found), []).append(found)
        self._reports_of[report.reporter] = reports + 1
        return found

    def emptied(self) -> list[Bin]:
        """Return all bins, and begin anew."""
        found = list(self)
        self._cells, self._count, self._reports_of = {}, 0, {}
        return found

    def _nearest(self, report: EventReport) -> Bin | None:
        column, row = self._cell_of(report.x_km, report.y_km)
        near = [
            (math.hypot(one.x_km - report.x_km, one.y_km - report.y_km), number, one)
            for number, one in enumerate(
                one
                for x in (column - 1, column, column + 1)
                for y in (row - 1, row, row + 1)
                for one in self._cells.get((x, y), ())
            )
        ]
        away_km, _, found = min(near, default=(math.inf, 0, None))
        return found if away_km <= self._reach_km else None

    def _cell(self, one: Bin) -> tuple[int, int]:
        return self._cell_of(one.x_km, one.y_km)

    def _cell_of(self, x_km: float, y_km: float) -> tuple[int, int]:
        return math.floor(x_km / self._reach_km), math.floor(y_km / self._reach_km)

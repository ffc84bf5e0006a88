"""Whether a position can be true: range, time, speed, and what lies between it and the last one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearcast.broker.events.report import PositionReport
from nearcast.geo.bounds import Bounds

__all__ = ["Plausibility", "PlausibilityParams"]


@dataclass(frozen=True, slots=True)
class PlausibilityParams:
    """What is taken for possible."""

    field: Bounds
    """Where vehicles can be."""
    most_mps: float = 70.0
    """No vehicle is faster."""
    slack_km: float = 0.05
    """How wrong a position may be."""
    slack_mps: float = 15.0
    """How far the speed between two positions may differ from the reported ones."""
    early_s: float = 2.0
    """How far ahead a reporter's clock may be."""
    late_s: float = 30.0
    """How old a report may be."""
    forget_s: float = 60.0
    """After such a silence a reporter may be anywhere."""
    most_reporters: int = 100_000


class Plausibility:
    """Remembers the last position of each reporter that was plausible."""

    def __init__(self, params: PlausibilityParams) -> None:
        self._params = params
        self._last: dict[str, PositionReport] = {}

    def __len__(self) -> int:
        return len(self._last)

    def flag(self, report: PositionReport, now_s: float) -> str | None:
        """Return why a report cannot be true, as a word for counters; None when it can.

        ``not_finite``, ``out_of_field``, ``wrong_time``, ``out_of_order``, ``too_fast``, ``jump``,
        ``speed_mismatch``. A report that is flagged does not become the last position, so that a
        liar cannot move in steps to where it wants to be seen.
        """
        reason = self._reason(report, now_s)
        if reason is None:
            self._last.pop(report.reporter, None)
            self._last[report.reporter] = report
            if len(self._last) > self._params.most_reporters:
                del self._last[next(iter(self._last))]  # who was silent longest
        return reason

    def forget(self, reporter: str) -> None:
        """Drop a reporter that has left."""
        self._last.pop(reporter, None)

    def _reason(self, report: PositionReport, now_s: float) -> str | None:
        params = self._params
        numbers = (report.x_km, report.y_km, report.time_s, report.speed_mps)
        if not all(map(math.isfinite, numbers)):
            return "not_finite"
        west, south, east, north = params.field
        if not (west <= report.x_km <= east and south <= report.y_km <= north):
            return "out_of_field"
        if not now_s - params.late_s <= report.time_s <= now_s + params.early_s:
            return "wrong_time"
        if not 0 <= report.speed_mps <= params.most_mps:
            return "too_fast"
        last = self._last.get(report.reporter)
        if last is None or report.time_s - last.time_s > params.forget_s:
            return None
        return self._against(last, report)

    def _against(self, last: PositionReport, report: PositionReport) -> str | None:
        params = self._params
        elapsed_s = report.time_s - last.time_s
        if elapsed_s < 0:
            return "out_of_order"
        away_km = math.hypot(report.x_km - last.x_km, report.y_km - last.y_km)
        away_m = 1000 * max(0.0, away_km - params.slack_km)
        if away_m > params.most_mps * elapsed_s:
            return "jump"
        if away_m > (max(last.speed_mps, report.speed_mps) + params.slack_mps) * elapsed_s:
            return "speed_mismatch"
        return None

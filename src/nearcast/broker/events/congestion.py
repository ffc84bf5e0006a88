"""Slow traffic, noticed from positions alone: who drove and now crawls reports congestion."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.broker.events.report import EventReport, PositionReport

__all__ = ["CongestionParams", "SlowTraffic"]


@dataclass(frozen=True, slots=True)
class CongestionParams:
    """What is slow."""

    kind: str = "congestion"
    free_mps: float = 8.0
    """Who was faster did drive."""
    slow_mps: float = 3.0
    slow_for_s: float = 5.0
    remember_s: float = 300.0
    """How long ago one may have driven; who stands longer is parked."""
    most_reporters: int = 100_000


@dataclass(slots=True)
class _Drive:
    free_s: float
    """When it last drove."""
    slow_since_s: float | None = None


class SlowTraffic:
    """Turns positions into reports of congestion, one for each position of who is stuck.

    A car park stays silent: those in it did not drive a short while ago. How many are needed
    for an alert is the business of the kind ``congestion``.
    """

    def __init__(self, params: CongestionParams | None = None) -> None:
        self._params = params or CongestionParams()
        self._drives: dict[str, _Drive] = {}

    def __len__(self) -> int:
        return len(self._drives)

    def add(self, position: PositionReport) -> EventReport | None:
        """Take a plausible position; return the report that follows from it."""
        params = self._params
        drive = self._drives.pop(position.reporter, None)
        if position.speed_mps >= params.free_mps:
            drive = _Drive(position.time_s)
        elif drive is None or position.time_s - drive.free_s > params.remember_s:
            return None
        elif position.speed_mps > params.slow_mps:
            drive.slow_since_s = None
        elif drive.slow_since_s is None:
            drive.slow_since_s = position.time_s
        self._drives[position.reporter] = drive
        if len(self._drives) > params.most_reporters:
            del self._drives[next(iter(self._drives))]
        since_s = drive.slow_since_s
        if since_s is None or position.time_s - since_s < params.slow_for_s:
            return None
        return EventReport(
            params.kind, position.reporter, position.x_km, position.y_km, position.time_s
        )

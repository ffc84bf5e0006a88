"""Where reporters were last seen: who could have sensed an event."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nearcast.broker.events.report import PositionReport

__all__ = ["Sightings"]


class Sightings:
    """Last plausible positions, the newest last.

    Parameters
    ----------
    fresh_s
        For how long a position says where someone is.
    most_reporters
        Beyond it those are dropped who were silent longest.
    """

    def __init__(self, fresh_s: float = 10.0, most_reporters: int = 100_000) -> None:
        self._fresh_s = fresh_s
        self._most_reporters = most_reporters
        self._seen: dict[str, PositionReport] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, report: PositionReport) -> None:
        """Take a position in."""
        self._seen.pop(report.reporter, None)
        self._seen[report.reporter] = report
        if len(self._seen) > self._most_reporters:
            del self._seen[next(iter(self._seen))]

    def place_of(self, reporter: str, now_s: float) -> PositionReport | None:
        """Return where a reporter is; None when that is not known."""
        report = self._seen.get(reporter)
        return report if report and report.time_s >= now_s - self._fresh_s else None

    def around(
        self, places: Iterable[tuple[float, float]], radius_km: float, now_s: float
    ) -> list[list[str]]:
        """Return, for each place, who is there."""
        fresh = [one for one in self._seen.values() if one.time_s >= now_s - self._fresh_s]
        x = np.array([one.x_km for one in fresh])
        y = np.array([one.y_km for one in fresh])
        return [
            [fresh[at].reporter for at in np.flatnonzero(np.hypot(x - px, y - py) <= radius_km)]
            for px, py in places
        ]

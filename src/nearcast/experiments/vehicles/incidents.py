"""What happens on the roads, and which vehicles sense it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.broker.events.kinds import mercury_kinds
from nearcast.mobility.moment import Moment
from nearcast.wire.message_class import CONSUMER

__all__ = [
    "KINDS",
    "MESSAGE_CLASSES",
    "SENSED_KM",
    "Collision",
    "Incident",
    "draw_incident",
]

SENSED_KM = 0.4
"""How far a vehicle senses what happens."""
KINDS: Mapping[str, Mapping[str, Any]] = {
    "emergency": {"least_radius_km": 0.5},
    "collision": {
        "period_s": 1.0,
        "sensed_km": SENSED_KM,
        "reach_km": SENSED_KM,
        "least_radius_km": 0.6,
        "margin_km": 0,
    },
    "obstacle": {"period_s": 2.0, "least_radius_km": 0.3},
    "lane_change": {"least_radius_km": 0.3},
}
"""What the event broker is configured with; the number of reporters is that of its kinds."""
MESSAGE_CLASSES: Mapping[str, str] = {
    name: mercury_kinds()[name].message_class or CONSUMER for name in KINDS
}
"""In which class vehicles report a kind, and are alerted of it."""
_EVERY_S = 5
_FIRST_S = 5
_ALONE_S = 10


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happens at a place and a second."""

    time_s: int
    kind: str
    x_km: float
    y_km: float

    def sensed_by(self, moment: Moment) -> list[int]:
        """Return the rows of the vehicles that are near; who raises an alarm alone is the nearest."""
        away_km = np.hypot(moment.x_km - self.x_km, moment.y_km - self.y_km)
        order = np.argsort(away_km, kind="stable")
        near = [int(row) for row in order if away_km[row] <= SENSED_KM]
        return near[:1] if self.kind in ("emergency", "lane_change") else near


@dataclass(frozen=True, slots=True)
class Collision:
    """One collision at a place that is known beforehand, and how far around it all are told."""

    x_km: float
    y_km: float
    radius_km: float

    def kinds(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what the event broker is configured with."""
        return {**KINDS, "collision": {**KINDS["collision"], "least_radius_km": self.radius_km}}

    def at(self, moment: Moment) -> Incident | None:
        """Return it in the second in which it happens."""
        second = round(moment.time_s)
        return Incident(second, "collision", self.x_km, self.y_km) if second == _ALONE_S else None


def draw_incident(moment: Moment, rng: np.random.Generator) -> Incident | None:
    """Return what happens in a second: every few seconds something where a vehicle is, or None."""
    second = round(moment.time_s)
    if second < _FIRST_S or second % _EVERY_S or not len(moment.vehicles):
        return None
    row = int(rng.integers(len(moment.vehicles)))
    kind = list(KINDS)[second // _EVERY_S % len(KINDS)]
    return Incident(second, kind, float(moment.x_km[row]), float(moment.y_km[row]))

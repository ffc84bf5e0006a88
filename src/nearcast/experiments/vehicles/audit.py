"""Who should have heard each alert, found by plain loops over all vehicles, and who did."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import hypot
from typing import Any

from nearcast.experiments.percentiles import percentile
from nearcast.experiments.vehicles.incidents import DEADLINES_MS, MESSAGE_CLASSES

__all__ = ["AlertRecord", "Audit"]

_LATER_MS = 1_000.0
"""What comes later is told again: places are those of then."""


@dataclass(slots=True)
class AlertRecord:
    """An alert, whom it concerned, and whom it reached."""

    kind: str
    x_km: float
    y_km: float
    radius_km: float
    second: int
    expected: frozenset[str]
    """Vehicles in its area, as they last reported."""
    heard: Counter[str] = field(default_factory=Counter)
    delays_ms: list[float] = field(default_factory=list)
    entered: set[str] = field(default_factory=set)
    """Vehicles that came into the area while it was valid, and heard it at their next home."""


class Audit:
    """All alerts of a run. An alert is known by its cause: publisher, epoch and sequence."""

    def __init__(self) -> None:
        self.alerts: dict[tuple[str, int, int, str], AlertRecord] = {}

    def note(
        self,
        key: tuple[str, int, int, str],
        alert: Mapping[str, Any],
        vehicle: str,
        delay_ms: float,
        second: int,
        places: Mapping[str, tuple[float, float]],
    ) -> None:
        """Take a notification that a vehicle got."""
        found = self.alerts.get(key)
        if found is None:
            x_km, y_km = alert["position"]
            radius_km = float(alert["radius_km"])
            inside = frozenset(
                name for name, (x, y) in places.items() if hypot(x - x_km, y - y_km) <= radius_km
            )
            found = self.alerts[key] = AlertRecord(
                str(alert["alert"]), x_km, y_km, radius_km, second, inside
            )
        found.heard[vehicle] += 1
        if vehicle in found.expected:
            found.delays_ms.append(delay_ms)
        elif delay_ms > _LATER_MS and vehicle in places:
            x, y = places[vehicle]
            if hypot(x - found.x_km, y - found.y_km) <= found.radius_km:
                found.entered.add(vehicle)

    def summary(self) -> dict[str, Any]:
        """Return the counts; false and missed are (alert, vehicle) pairs."""
        alerts = self.alerts.values()
        delays: dict[str, list[float]] = defaultdict(list)
        for one in alerts:
            delays[MESSAGE_CLASSES.get(one.kind, "consumer")] += one.delays_ms
        return {
            "alerts": len(self.alerts),
            "expected": sum(len(one.expected) for one in alerts),
            "delivered": sum(len(one.heard.keys() & one.expected) for one in alerts),
            "entered": sum(len(one.entered) for one in alerts),
            "false": sum(len(one.heard.keys() - one.expected - one.entered) for one in alerts),
            "missed": sum(len(one.expected - one.heard.keys()) for one in alerts),
            "doubled": sum(count - 1 for one in alerts for count in one.heard.values()),
            "in_deadline": {
                name: sum(delay <= DEADLINES_MS[name] for delay in some) / len(some)
                for name, some in sorted(delays.items())
            },
            "delay_ms": {
                name: {"p50": percentile(some, 0.5), "p99": percentile(some, 0.99)}
                for name, some in sorted(delays.items())
            },
        }

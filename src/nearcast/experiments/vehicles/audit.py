"""Who should have heard each alert, found by looking at all vehicles, and who did."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import hypot
from typing import Any

from nearcast.experiments.percentiles import percentile
from nearcast.experiments.vehicles.brute_force import brute_force
from nearcast.wire.message_class import MESSAGE_CLASSES

__all__ = ["AlertRecord", "Audit", "OnAlert"]

_SHOWN_CASES = 10


@dataclass(slots=True)
class AlertRecord:
    """An alert, whom it concerned, and whom it reached."""

    kind: str
    message_class: str
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
    outside: list[dict[str, Any]] = field(default_factory=list)
    """Each delivery to a vehicle that was not in the area then, with where it was."""

    def has_inside(self, x_km: float, y_km: float) -> bool:
        """Tell whether a place is in the alert's area."""
        return hypot(x_km - self.x_km, y_km - self.y_km) <= self.radius_km


OnAlert = Callable[[AlertRecord, Mapping[str, tuple[float, float]]], object]


class Audit:
    """All alerts of a run. An alert is known by its cause (publisher, epoch, sequence), kind and place."""

    def __init__(self) -> None:
        self.alerts: dict[tuple[str, int, int, str], AlertRecord] = {}
        self.on_alert: OnAlert = lambda alert, places: None
        """Is told of each alert when the first vehicle hears it, with where all vehicles are."""
        self.checked_by, self._inside = brute_force()

    def note(
        self,
        key: tuple[str, int, int, str],
        alert: Mapping[str, Any],
        message_class: str,
        vehicle: str,
        delay_ms: float,
        second: int,
        places: Mapping[str, tuple[float, float]],
    ) -> None:
        """Take a notification that a vehicle got.

        Parameters
        ----------
        places
            Where vehicles had last reported to be when it got it.
        """
        found = self.alerts.get(key)
        if found is None:
            x_km, y_km = alert["position"]
            radius_km = float(alert["radius_km"])
            expected = self._inside(places, x_km, y_km, radius_km)
            found = self.alerts[key] = AlertRecord(
                *(str(alert["alert"]), message_class, x_km, y_km, radius_km, second, expected)
            )
            self.on_alert(found, places)
        found.heard[vehicle] += 1
        if vehicle in found.expected:
            found.delays_ms.append(delay_ms)
            return
        place = places.get(vehicle)
        if place is not None and found.has_inside(*place):
            found.entered.add(vehicle)
        else:
            found.outside.append(
                {
                    "alert": found.kind,
                    "second": found.second,
                    "vehicle": vehicle,
                    "place": place,
                    "area": (found.x_km, found.y_km, found.radius_km),
                    "delay_ms": delay_ms,
                }
            )

    def summary(self) -> dict[str, Any]:
        """Return the counts; false and missed are (alert, vehicle) pairs."""
        alerts = self.alerts.values()
        delays: dict[str, list[float]] = defaultdict(list)
        for one in alerts:
            delays[one.message_class] += one.delays_ms
        expected = sum(len(one.expected) for one in alerts)
        delivered = sum(len(one.heard.keys() & one.expected) for one in alerts)
        entered = sum(len(one.entered) for one in alerts)
        false = sum(len(one.outside) for one in alerts)
        told = delivered + entered + false
        return {
            "alerts": len(self.alerts),
            "checked_by": self.checked_by,
            "expected": expected,
            "delivered": delivered,
            "entered": entered,
            "precision": 1 - false / told if told else None,
            "recall": delivered / expected if expected else None,
            "false": false,
            "false_cases": [case for one in alerts for case in one.outside][:_SHOWN_CASES],
            "missed": sum(len(one.expected - one.heard.keys()) for one in alerts),
            "doubled": sum(count - 1 for one in alerts for count in one.heard.values()),
            "in_deadline": {
                name: sum(delay <= MESSAGE_CLASSES[name].deadline_ms for delay in some) / len(some)
                for name, some in sorted(delays.items())
            },
            "delay_ms": {
                name: {"p50": percentile(some, 0.5), "p99": percentile(some, 0.99)}
                for name, some in sorted(delays.items())
            },
        }

"""Reports in, alerts out: bins by kind, judged by who reported and who was near and silent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from nearcast.broker.events.bins import Bin, Bins
from nearcast.broker.events.congestion import SlowTraffic
from nearcast.broker.events.kinds import EventKind
from nearcast.broker.events.plausibility import Plausibility
from nearcast.broker.events.report import Alert, EventReport, PositionReport, Situation
from nearcast.broker.events.reputation import Reputation
from nearcast.broker.events.sightings import Sightings
from nearcast.geo.area import AreaOfInterest
from nearcast.geo.bounds import Shape
from nearcast.geo.polygon import Polygon
from nearcast.geo.shapes import Circle

__all__ = ["EventBroker", "EventParams"]


@dataclass(frozen=True, slots=True)
class EventParams:
    """Limits, and how much support an alert needs.

    Parameters
    ----------
    support
        Share of the weight of all who could sense the event that must speak for it.
    margin
        Weight by which those who speak for it must exceed the others, besides: three against two
        is no majority to rely on.
    clear
        How far from `support` a share must be before it counts for anyone's reputation.
    least_weight
        Who is believed less does not count as a reporter.
    """

    most_bins: int = 10_000
    most_reports: int = 20
    most_held: int = 10_000
    support: float = 0.5
    margin: float = 1.5
    clear: float = 0.15
    least_weight: float = 0.2


class EventBroker:
    """Holds the bins of all kinds.

    The caller gives each position to `position` and each event to `report`, calls `tick` as time
    goes on, and sends the alerts that they return. Nothing is dropped in silence: what was refused
    and why is in `counts`.
    """

    def __init__(
        self,
        kinds: Mapping[str, EventKind],
        plausibility: Plausibility,
        *,
        now_s: float,
        params: EventParams | None = None,
        reputation: Reputation | None = None,
        slow_traffic: SlowTraffic | None = None,
    ) -> None:
        self._params = params or EventParams()
        self._kinds = dict(kinds)
        self._bins = {
            name: Bins(kind.reach_km, self._params.most_bins, self._params.most_reports)
            for name, kind in kinds.items()
        }
        self._due_s = {name: now_s + kind.emptied_every_s for name, kind in kinds.items()}
        self._plausibility = plausibility
        self._reputation = Reputation() if reputation is None else reputation
        self._slow_traffic = slow_traffic
        self._sightings = Sightings()
        self._held: dict[str, list[Situation]] = {name: [] for name in kinds}
        self.counts: Counter[str] = Counter()
        """Reports that were refused or flagged, by reason."""

    def position(self, report: PositionReport, now_s: float) -> bool:
        """Take a position in; tell whether it is plausible. One that is not is counted."""
        reason = self._plausibility.flag(report, now_s)
        if reason is not None:
            self.counts[reason] += 1
            self._reputation.refute(report.reporter)
            return False
        self._sightings.add(report)
        if self._slow_traffic is not None:
            stuck = self._slow_traffic.add(report)
            if stuck is not None and stuck.kind in self._bins:
                self.counts["no_room"] += self._bins[stuck.kind].add(stuck) is None
        return True

    def report(self, report: EventReport, now_s: float) -> list[Alert]:
        """Take an event in; return the alert, if its kind alerts at once."""
        kind = self._kinds.get(report.kind)
        reason = self._refusal(kind, report, now_s)
        if kind is None or reason is not None:
            self.counts[reason or "unknown_kind"] += 1
            return []
        found = self._bins[kind.name].add(report)
        if found is None:
            self.counts["no_room"] += 1
            return []
        if not kind.is_at_once or not kind.predicate(found):
            return []
        return [self._alert(kind, found, now_s)]

    def tick(self, now_s: float) -> list[Alert]:
        """Empty the bins of each kind that is due, and return the alerts."""
        alerts = []
        for name, kind in self._kinds.items():
            if self._due_s[name] > now_s:
                continue
            # from now on, so that a clock that jumped ahead does not bring a burst of ticks
            self._due_s[name] = now_s + kind.emptied_every_s
            bins = self._bins[name].emptied()
            if not kind.is_at_once:
                alerts += self._judged(kind, bins, now_s)
            self._held[name] = self._still_held(kind, now_s)
        return alerts

    def going_on(self, shape: Shape, now_s: float) -> list[Situation]:
        """Return what is known of situations that meet a shape, newest first."""
        found = []
        bounds = shape.bounds
        for name, kind in self._kinds.items():
            known = self._still_held(kind, now_s)
            known += [_situation(kind, one, is_alerted=False) for one in self._bins[name]]
            near = [one for one in known if one.circle.bounds.meets(bounds)]
            found += [one for one in near if shape.meets(_around(one.circle))]
        return sorted(found, key=lambda one: -one.time_s)

    def _refusal(self, kind: EventKind | None, report: EventReport, now_s: float) -> str | None:
        if kind is None:
            return "unknown_kind"
        if not all(map(math.isfinite, (report.x_km, report.y_km, report.time_s))):
            return "not_finite"
        seen = self._sightings.place_of(report.reporter, now_s)
        if seen is None:
            return "no_position"
        if abs(report.time_s - seen.time_s) > kind.hold_s:
            return "wrong_time"
        away_km = math.hypot(report.x_km - seen.x_km, report.y_km - seen.y_km)
        if away_km > max(kind.sensed_km, kind.reach_km):
            self._reputation.refute(report.reporter)
            return "too_far"
        if self._reputation.weight(report.reporter) < self._params.least_weight:
            return "not_believed"
        return None

    def _judged(self, kind: EventKind, bins: list[Bin], now_s: float) -> list[Alert]:
        near: list[list[str]] = [[] for _ in bins]
        if kind.sensed_km and bins:
            places = [(one.x_km, one.y_km) for one in bins]
            near = self._sightings.around(places, kind.sensed_km, now_s)
        return [
            self._alert(kind, one, now_s)
            for one, witnesses in zip(bins, near, strict=True)
            if self._is_supported(kind, one, witnesses) and kind.predicate(one)
        ]

    def _is_supported(self, kind: EventKind, one: Bin, witnesses: list[str]) -> bool:
        """Weigh reporters against silent witnesses, and remember who was right."""
        if not kind.sensed_km:
            return True
        silent = [name for name in witnesses if name not in one.reporters]
        speaking, against = self._reputation.total(one.reporters), self._reputation.total(silent)
        share = speaking / (speaking + against)
        is_true = share > self._params.support and speaking - against >= self._params.margin
        if abs(share - self._params.support) >= self._params.clear:
            right, wrong = (one.reporters, silent) if is_true else (silent, one.reporters)
            for name in right:
                self._reputation.confirm(name)
            for name in wrong:
                self._reputation.refute(name)
        return is_true

    def _alert(self, kind: EventKind, one: Bin, now_s: float) -> Alert:
        situation = _situation(kind, one, is_alerted=True)
        held = self._still_held(kind, now_s)
        again = [
            old
            for old in held
            if math.hypot(old.x_km - one.x_km, old.y_km - one.y_km) <= kind.reach_km
        ]
        held = [old for old in held if old not in again][-self._params.most_held + 1 :]
        self._held[kind.name] = [*held, situation]
        radius_km = max(kind.least_radius_km, one.radius_km + kind.margin_km)
        area = AreaOfInterest(
            Circle(one.x_km, one.y_km, radius_km),
            valid_from_s=now_s,
            valid_until_s=now_s + kind.hold_s,
        )
        return Alert(situation, area, not again, kind.message_class)

    def _still_held(self, kind: EventKind, now_s: float) -> list[Situation]:
        return [one for one in self._held[kind.name] if one.time_s > now_s - kind.hold_s]


def _situation(kind: EventKind, one: Bin, *, is_alerted: bool) -> Situation:
    radius_km = max(one.radius_km, kind.reach_km / 2)
    return Situation(
        *(kind.name, one.x_km, one.y_km, radius_km, one.count, len(one.reporters), one.last_s),
        is_alerted,
    )


def _around(circle: Circle) -> Polygon:
    """Return a polygon of 16 corners around a circle, at most 2 % wider."""
    angles = [2 * math.pi * (number + 0.5) / 16 for number in range(16)]
    reach_km = circle.radius_km / math.cos(math.pi / 16)
    return Polygon.around(
        [
            (circle.x_km + reach_km * math.cos(angle), circle.y_km + reach_km * math.sin(angle))
            for angle in angles
        ]
    )

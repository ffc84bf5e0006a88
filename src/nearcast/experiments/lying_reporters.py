"""Scenes with liars: how many alerts are true, and how many collisions are alerted.

Vehicles drive about in a field. A collision happens in the middle of each scene; honest vehicles
near it report it, with a chance to miss it in each second. Liars keep silent about it and report
collisions that did not happen: in half of the scenes each at its own place, in the others all at
one place, those who are elsewhere with a forged position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearcast.broker.events.event_broker import EventBroker
from nearcast.broker.events.kinds import EventKind, mercury_kinds
from nearcast.broker.events.plausibility import Plausibility, PlausibilityParams
from nearcast.broker.events.report import EventReport, PositionReport
from nearcast.geo.bounds import Bounds

__all__ = ["RULES", "SceneParams", "Trust", "run"]


@dataclass(frozen=True, slots=True)
class SceneParams:
    """One scene."""

    side_km: float = 3.0
    vehicles: int = 225
    seconds: int = 12
    begins_s: int = 5
    """When the collision happens."""
    sensed_share: float = 0.9
    """Chance that a vehicle near it reports it in a second."""
    false_share: float = 0.3
    """Chance that a liar reports one in a second at its own place."""


@dataclass(frozen=True, slots=True)
class Trust:
    """All scenes of one rule and share of liars."""

    rule: str
    liars: float
    scenes: int
    alerts: int
    """Different ones."""
    false: int
    precision: float
    recall: float
    flagged: int
    """Positions and reports that were refused."""


def _kind(rule: str) -> EventKind:
    kind = mercury_kinds()["collision"]
    return kind if rule == "witnesses" else replace(kind, sensed_km=0.0)


RULES = ("witnesses", "count")
"""Reporters weighed against silent witnesses; three reporters alone, as Mercury's predicate."""


def run(
    shares: Sequence[float],
    scenes: int,
    seed: int,
    begin: Callable[[str], None],
    params: SceneParams | None = None,
) -> Iterator[Trust]:
    """Play all scenes for each rule and share of liars; the scenes of both rules are the same."""
    params = params or SceneParams()
    for share in shares:
        for rule in RULES:
            begin(f"{rule}, {share:.0%} liars")
            played = [
                _Scene(params, share, _kind(rule), np.random.default_rng([seed, scene])).play()
                for scene in range(scenes)
            ]
            alerts, false, found, flagged = (sum(column) for column in zip(*played, strict=True))
            precision = (alerts - false) / alerts if alerts else 1.0
            yield Trust(rule, share, scenes, alerts, false, precision, found / scenes, flagged)


class _Scene:
    def __init__(
        self, params: SceneParams, share: float, kind: EventKind, rng: np.random.Generator
    ) -> None:
        self._params, self._kind, self._rng = params, kind, rng
        side = params.side_km
        self._place = rng.uniform(0, side, (params.vehicles, 2))
        heading = rng.uniform(0, 2 * math.pi, params.vehicles)
        self._speed_mps = rng.uniform(0, 15, params.vehicles)
        self._move = np.stack([np.cos(heading), np.sin(heading)], 1) * self._speed_mps[:, None]
        self._is_liar = np.zeros(params.vehicles, np.bool_)
        self._is_liar[rng.permutation(params.vehicles)[: round(share * params.vehicles)]] = True
        self._collision = rng.uniform(0.2 * side, 0.8 * side, 2)
        self._together = bool(rng.random() < 0.5)
        self._target = self._far_place()
        field = Bounds(0.0, 0.0, side, side).grown(0.5)
        self._broker = EventBroker(
            {kind.name: kind}, Plausibility(PlausibilityParams(field)), now_s=0.0
        )

    def play(self) -> tuple[int, int, bool, int]:
        """Return different alerts, the false ones, whether the collision was alerted, refusals."""
        alerts = false = 0
        found = False
        for second in range(self._params.seconds):
            self._place += self._move / 1000
            self._report(float(second))
            for alert in self._broker.tick(second + 1.0):
                at = np.array([alert.situation.x_km, alert.situation.y_km])
                is_true = second >= self._params.begins_s and (
                    float(np.hypot(*(at - self._collision))) <= alert.situation.radius_km + 0.1
                )
                found = found or is_true
                alerts += alert.is_new
                false += alert.is_new and not is_true
        return alerts, false, found, self._broker.counts.total()

    def _report(self, now_s: float) -> None:
        rng, count = self._rng, self._params.vehicles
        seen = self._place + rng.normal(0, 0.003, (count, 2))
        away = np.hypot(*(self._place - self._collision).T)
        senses = (
            (away <= 0.95 * self._sensed_km())
            & (rng.random(count) < self._params.sensed_share)
            & (now_s >= self._params.begins_s)
            & ~self._is_liar
        )
        events = self._collision + rng.normal(0, 0.02, (count, 2))
        lies = self._is_liar & (self._together | (rng.random(count) < self._params.false_share))
        if self._together and now_s > 0:  # the first position is true: they come from somewhere
            far = lies & (np.hypot(*(self._place - self._target).T) > 0.95 * self._sensed_km())
            seen[far] = self._target + rng.normal(0, 0.1, (count, 2))[far]
        events[lies] = self._target if self._together else seen[lies]
        for vehicle in range(count):
            name = f"v{vehicle}"
            x, y = seen[vehicle].tolist()
            self._broker.position(
                PositionReport(name, x, y, now_s, float(self._speed_mps[vehicle])), now_s
            )
            if senses[vehicle] or lies[vehicle]:
                x, y = events[vehicle].tolist()
                self._broker.report(EventReport(self._kind.name, name, x, y, now_s), now_s)

    def _sensed_km(self) -> float:
        return mercury_kinds()["collision"].sensed_km

    def _far_place(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        while True:
            place = self._rng.uniform(0, self._params.side_km, 2)
            if np.hypot(*(place - self._collision)) > 1.2:
                return place

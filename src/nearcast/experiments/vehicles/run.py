"""A run of vehicles: seconds from a mover, incidents, and what came of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from nearcast.errors import ConfigError
from nearcast.experiments.vehicles.audit import AlertRecord, OnAlert
from nearcast.experiments.vehicles.driving import Fleet
from nearcast.experiments.vehicles.incidents import (
    KINDS,
    SENSED_KM,
    Collision,
    Incident,
    draw_incident,
)
from nearcast.geo.bounds import Bounds
from nearcast.mobility.moment import Floats, Mover

__all__ = ["Drive", "DriveSettings", "VideoFrame", "drive_simulated"]

_FRAMES, _FILM_S = 30, 60
"""Pictures of the film, over a minute at most: in longer steps vehicles would jump."""
_ENOUGH = {"emergency": 1, "lane_change": 1, "collision": 3, "obstacle": 2}
"""Reporters that a kind needs: see `broker.events.kinds`."""
_ALERTED_WITHIN_S = 5
_SAME_EVENT_KM = 1.0


@dataclass(frozen=True, slots=True)
class DriveSettings:
    """How long, past how many servers, and how often each vehicle reports."""

    edges: int = 16
    seconds: int = 600
    report_s: int = 5
    seed: int = 1
    collision: Collision | None = None
    """The only incident; None: incidents by chance."""

    def __post_init__(self) -> None:
        if not 1 <= self.edges <= 400:
            raise ConfigError(f"there are {self.edges} edge servers; 1 to 400 are possible")
        if self.seconds < 20:
            raise ConfigError("a run takes at least 20 seconds of the vehicles' time")
        if not 1 <= self.report_s <= 60:
            raise ConfigError("vehicles report every 1 to 60 seconds")


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrame:
    """A picture of the film: where vehicles are, and the number of each one's home."""

    second: int
    x_km: Floats
    y_km: Floats
    homes: list[int]


@dataclass(slots=True, eq=False)
class Drive:
    """What a run found."""

    field: Bounds
    edges: dict[str, tuple[float, float]]
    found: dict[str, Any]
    alerts: list[AlertRecord]
    incidents: list[Incident]
    frames: list[VideoFrame]

    @property
    def has_failed(self) -> bool:
        """Whether anything was not as it has to be."""
        names = ("false", "missed", "lost", "doubled", "unalerted")
        return any(self.found[name] for name in names)


def drive_simulated(
    mover: Mover,
    settings: DriveSettings,
    tell: Callable[[int, int], None],
    on_alert: OnAlert = lambda alert, places: None,
) -> Drive:
    """Drive vehicles past simulated servers.

    Parameters
    ----------
    tell
        Hears how many seconds are done, and of all.
    on_alert
        See `Audit.on_alert`.
    """
    alone = settings.collision
    kinds = KINDS if alone is None else alone.kinds()
    names, edges = mover.names, settings.edges
    fleet = Fleet(mover.field, names, edges, settings.report_s, settings.seed, kinds)
    fleet.audit.on_alert = on_alert
    rng = np.random.default_rng(settings.seed)
    sensed: dict[Incident, int] = {}
    frames: deque[VideoFrame] = deque(maxlen=_FRAMES)
    most = second = 0
    moments = mover.moments()
    try:
        for number, moment in enumerate(islice(moments, settings.seconds)):
            second = round(moment.time_s)
            if not len(moment.vehicles):
                continue
            happens = None
            if alone is not None:
                happens = alone.at(moment)
            elif second < settings.seconds - 10:
                happens = draw_incident(moment, rng)
            now = [] if happens is None else [happens]
            sensed |= {one: len(one.sensed_by(moment)) for one in now}
            if alone is not None and happens is not None:
                _check_sensed(happens, sensed[happens])
            fleet.drive(moment, now)
            most = max(most, len(moment.vehicles))
            if _is_filmed(number, settings):
                frames.append(_frame(fleet, second))
            tell(second + 1, settings.seconds)
    finally:
        close = getattr(moments, "close", None)
        if close is not None:
            close()
    if not most:
        raise ConfigError("no vehicle was on the road")
    if not frames:
        frames.append(_frame(fleet, second))
    fleet.end()
    alerts = list(fleet.audit.alerts.values())
    due, lost, doubled = fleet.news()
    found = fleet.audit.summary()
    unalerted = [one for one, count in sensed.items() if _is_unalerted(one, count, alerts)]
    servers = fleet.site.servers.values()
    found = {
        "vehicles": most,
        "edges": settings.edges,
        "seconds": settings.seconds,
        "report_s": settings.report_s,
        "reports": fleet.reports,
        "handovers": fleet.handovers,
        "announced": sum(one.counts["roaming_announced"] > 0 for one in servers),
        "incidents": len(sensed),
        "unalerted": len(unalerted),
        **found,
        "news_due": due,
        "lost": lost,
        "doubled": found["doubled"] + doubled,
    }
    return Drive(mover.field, fleet.edges, found, alerts, list(sensed), list(frames))


def _is_filmed(number: int, settings: DriveSettings) -> bool:
    """Tell whether a moment may be in the film, which keeps the last `_FRAMES` of them.

    It ends after the middle of a long run, or after the only incident; a trace may end before.
    """
    film_s = min(_FILM_S, settings.seconds)
    begins = 0 if settings.collision else (settings.seconds - film_s) // 2
    step = max(1, film_s // _FRAMES)
    return number < begins + film_s and (number - begins) % step == 0


def _check_sensed(incident: Incident, reporters: int) -> None:
    """Complain of a collision that nobody would be told of: a run of it would show nothing."""
    if reporters < _ENOUGH[incident.kind]:
        raise ConfigError(
            f"{reporters} vehicles are within {SENSED_KM} km of the {incident.kind} at "
            f"({incident.x_km:g}, {incident.y_km:g}); an alert needs {_ENOUGH[incident.kind]}: "
            "choose a place on the roads, or more vehicles"
        )


def _is_unalerted(incident: Incident, reporters: int, alerts: list[AlertRecord]) -> bool:
    """Tell whether enough vehicles sensed an incident and nobody was told of any."""
    if reporters < _ENOUGH[incident.kind]:
        return False
    return not any(
        one.kind == incident.kind
        and 0 <= one.second - incident.time_s <= _ALERTED_WITHIN_S
        and np.hypot(one.x_km - incident.x_km, one.y_km - incident.y_km) <= _SAME_EVENT_KM
        for one in alerts
    )


def _frame(fleet: Fleet, second: int) -> VideoFrame:
    homes, numbers = fleet.homes, {name: number for number, name in enumerate(fleet.edges)}
    places = np.array([fleet.places[name] for name in homes], dtype=np.float64).reshape(-1, 2)
    return VideoFrame(second, places[:, 0], places[:, 1], [numbers[one] for one in homes.values()])

"""What vehicles report, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.geo.area import AreaOfInterest
from nearcast.geo.shapes import Circle

__all__ = ["Alert", "EventReport", "PositionReport", "Situation"]


@dataclass(frozen=True, slots=True)
class PositionReport:
    """Where a vehicle is, and how it drives."""

    reporter: str
    x_km: float
    y_km: float
    time_s: float
    speed_mps: float
    heading_deg: float | None = None


@dataclass(frozen=True, slots=True)
class EventReport:
    """What a vehicle senses at a place."""

    kind: str
    reporter: str
    x_km: float
    y_km: float
    time_s: float


@dataclass(frozen=True, slots=True)
class Situation:
    """Something that goes on somewhere, as the bins know it."""

    kind: str
    x_km: float
    y_km: float
    radius_km: float
    count: int
    """Reports since the bins of its kind were emptied."""
    reporters: int
    """Different ones among them."""
    time_s: float
    """Of the last report."""
    is_alerted: bool
    """Whether enough was known to alert others."""

    @property
    def circle(self) -> Circle:
        """Where it is."""
        return Circle(self.x_km, self.y_km, self.radius_km)


@dataclass(frozen=True, slots=True)
class Alert:
    """A situation that others are to be told of."""

    situation: Situation
    area: AreaOfInterest
    """Who is to be told, until when."""
    is_new: bool
    """Whether it was not alerted in the period before."""
    message_class: str = ""
    """How urgent it is to tell them; empty: as most messages."""

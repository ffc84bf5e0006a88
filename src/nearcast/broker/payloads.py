"""Payloads that the shipped processors read: JSON objects of a few numbers.

====================  ==============================================================
``position``          [x, y] in km; the message's own position when it is left out
``direction``         degrees clockwise from north (0 is +y, 90 is +x)
``speed``             km/h, not negative
``value``             any number
====================  ==============================================================

Other keys are left alone. What is no such object is counted by the processor and passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import cos, isfinite, radians, sin
from typing import Any

from nearcast.wire.publication import Publication

__all__ = ["Motion", "read_motion", "read_number", "read_object", "write_object"]

_FURTHEST_KM = 1e6


@dataclass(frozen=True, slots=True)
class Motion:
    """Where something is at a time, and how it moves."""

    at_s: float
    x_km: float
    y_km: float
    vx_km_per_s: float
    vy_km_per_s: float

    def position_at(self, time_s: float) -> tuple[float, float]:
        """Return where it is at another time, if it keeps going."""
        elapsed_s = time_s - self.at_s
        return self.x_km + self.vx_km_per_s * elapsed_s, self.y_km + self.vy_km_per_s * elapsed_s


def read_object(payload: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a payload, None when it does not hold one."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_number(value: Any) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def read_motion(message: Publication) -> Motion | None:
    """Return position and velocity that a message reports, None when it does not."""
    found = read_object(message.payload)
    if found is None:
        return None
    place = found.get("position", [message.x_km, message.y_km])
    if not isinstance(place, list) or len(place) != 2:
        return None
    x_km, y_km = read_number(place[0]), read_number(place[1])
    direction, speed = read_number(found.get("direction")), read_number(found.get("speed"))
    if x_km is None or y_km is None or direction is None or speed is None:
        return None
    if speed < 0 or max(abs(x_km), abs(y_km)) > _FURTHEST_KM:
        return None
    # a clock that runs ahead must not make a report look newer than its arrival
    at_s = min(message.published_at_s, message.received_at_s)
    heading, km_per_s = radians(direction), speed / 3600
    return Motion(at_s, x_km, y_km, km_per_s * sin(heading), km_per_s * cos(heading))


def write_object(**values: Any) -> bytes:
    """Return a payload of a processor's own."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()

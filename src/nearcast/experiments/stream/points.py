"""What the bench of streams measures, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Case", "StreamPoint"]


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement."""

    mode: str
    rate: int
    kills: int = 0


@dataclass(frozen=True, slots=True)
class StreamPoint:
    """What came of it."""

    mode: str
    rate: int
    """Events per second, a twentieth of which are emergencies."""
    p50_ms: float | None
    p99_ms: float | None
    """From sending an event to reading its alert; with kills, the restarts are in it."""
    lost: int
    doubled: int
    wrong: int
    """Alerts that the event broker in plain Python does not make of the same events."""
    alerts: int
    events: int
    kills: int = 0
    table_lost: int | None = None
    table_doubled: int | None = None
    """The same in the stream's table of alerts, where there is one."""
    mercury_p50_ms: float | None = None
    """Of seed 003's prototype at this rate, for echoes between clients of a site."""
    note: str = ""

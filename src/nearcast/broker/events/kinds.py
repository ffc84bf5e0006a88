"""Kinds of events: when a bin becomes an alert, and how often bins are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nearcast.broker.events.bins import Bin
from nearcast.errors import ConfigError, WireError
from nearcast.wire.message_class import check_class

__all__ = ["EventKind", "at_least", "configured_kinds", "mercury_kinds"]

Predicate = Callable[[Bin], bool]
_URGENT = "emergency"
"""The message class of alerts that lives hang on."""


def at_least(reporters: int) -> Predicate:
    """Return the predicate that wants a number of different reporters; it can be pickled."""
    return partial(_has_reporters, reporters)


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event. A kind of one's own is one of these.

    Parameters
    ----------
    predicate
        Whether the reports of a bin are enough for an alert.
    period_s
        How often bins are looked at and emptied; 0 alerts at each report, at once.
    reach_km
        Reports within it are about the same event.
    least_radius_km
        An alert's area is at least so large around the reports.
    margin_km
        What is added around the reports.
    hold_s
        How long an alert counts, and a situation is told to those who ask.
    sensed_km
        How far a vehicle senses such an event: who was so near and silent speaks against it.
        0: silence says nothing.
    message_class
        How urgent its alerts are, whatever message brought them about; empty: as most messages.
    """

    name: str
    predicate: Predicate
    period_s: float
    reach_km: float = 0.5
    least_radius_km: float = 0.5
    margin_km: float = 0.5
    hold_s: float = 30.0
    sensed_km: float = 0.0
    message_class: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("a kind of event has no name")
        for name in ("reach_km", "least_radius_km", "hold_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} of event {self.name!r} is not above 0")
        for name in ("period_s", "margin_km", "sensed_km"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} of event {self.name!r} is not 0 or above")
        if self.message_class:
            try:
                check_class(self.message_class)
            except WireError as error:
                raise ConfigError(f"message_class of event {self.name!r}: {error}") from None

    @property
    def is_at_once(self) -> bool:
        """Whether each report is an alert."""
        return self.period_s == 0

    @property
    def emptied_every_s(self) -> float:
        """How often its bins are emptied."""
        return self.period_s or self.hold_s


def mercury_kinds() -> dict[str, EventKind]:
    """Return the kinds of Mercury's broker, by name."""
    kinds = (
        EventKind("emergency", at_least(1), 0.0, 0.2, 1.0, message_class=_URGENT),
        EventKind("collision", at_least(3), 1.0, sensed_km=0.5, message_class=_URGENT),
        EventKind("obstacle", at_least(2), 2.0, hold_s=120.0),
        EventKind("blocked", at_least(3), 5.0, least_radius_km=1.0, hold_s=300.0),
        EventKind("congestion", at_least(5), 10.0, reach_km=1.0, hold_s=120.0),
        EventKind("moving_object", at_least(2), 0.5, 0.2, hold_s=5.0, message_class=_URGENT),
        EventKind(
            "lane_change", at_least(1), 0.1, 0.05, 0.1, 0.1, 2.0, message_class="lane_change"
        ),
    )
    return {kind.name: kind for kind in kinds}


_NUMBERS = (
    *("period_s", "reach_km", "least_radius_km", "margin_km", "hold_s", "sensed_km"),
    "reporters",
)
_CLASS = "message_class"


def configured_kinds(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, EventKind]:
    """Return Mercury's kinds as tables change them, and those that the tables add.

    A table has the numbers of an `EventKind`, ``message_class``, and ``reporters``: how many
    different ones an alert needs. ConfigError for whatever is wrong.
    """
    kinds = mercury_kinds()
    for name, table in tables.items():
        known = (*_NUMBERS, _CLASS)
        if unknown := [key for key in table if key not in known]:
            raise ConfigError(
                f"event {name!r}: unknown setting {unknown[0]!r}; known: {', '.join(known)}"
            )
        for key, value in table.items():
            if key == _CLASS:
                continue  # the kind itself complains
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"event {name!r}: {key} is {value!r:.40}, not a number")
        numbers = dict(table)
        reporters = numbers.pop("reporters", None)
        if reporters is not None and (not isinstance(reporters, int) or reporters < 1):
            raise ConfigError(f"event {name!r}: reporters is {reporters}, not a number above 0")
        if name not in kinds and (reporters is None or "period_s" not in numbers):
            raise ConfigError(f"event {name!r} is new and needs period_s and reporters")
        kind = kinds.get(name) or EventKind(name, at_least(1), 0.0)
        if reporters is not None:
            numbers["predicate"] = at_least(reporters)
        kinds[name] = replace(kind, **numbers)
    return kinds


def _has_reporters(wanted: int, one: Bin) -> bool:
    return len(one.reporters) >= wanted

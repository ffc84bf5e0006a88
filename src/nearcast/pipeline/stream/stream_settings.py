"""What a stream reads, what it makes of it, and how it is told apart from other streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearcast.broker.processors.events import Events
from nearcast.errors import ConfigError
from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["AlertSettings", "DriftSettings", "StreamSettings", "TrafficSettings"]

_FORM = 1
"""Of the folder and of what is packed into checkpoints; another one is another stream."""


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """How events become alerts."""

    options: Mapping[str, Any]
    """Of the processor `events`."""
    late_s: float = 0.0
    """How long records are held for those that come late; 0: they count as they come."""
    forget_s: float = 3600.0
    """A topic that was silent for so long begins anew."""

    def __post_init__(self) -> None:
        Events(**self.options)
        if not self.late_s >= 0 or not self.forget_s > 0:
            raise ConfigError("late_s must be 0 or more, and forget_s more than 0")


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """Which plan is in force, and when another one pays."""

    scenario: Path
    plan: Path
    every_s: float = 60.0
    least_saving: float = 0.01
    migration_price_ms: float = 0.0
    time_limit_s: float = 5.0


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """How members, rates and positions are kept."""

    window_s: float = 60.0
    """Time constant of rates; who published within it is active."""
    repeats_s: float = 600.0
    """For how long a repeated publication is known; older rows are late and do not count."""
    forget_s: float = 3600.0
    """Members that were silent for so long, and do not subscribe, are dropped."""
    every_s: float = 10.0
    drift: DriftSettings | None = None


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One stream: a source, a folder, one or two queries."""

    out: Path
    kafka: KafkaSettings | None = None
    """Source, unless there is a log; and where alerts go."""
    log: Path | None = None
    """Event log of a site, as source."""
    events: tuple[str, ...] = ("#",)
    """With a log: patterns of the topics that are events."""
    alerts: AlertSettings | None = None
    traffic: TrafficSettings | None = None
    once: bool = False
    """End when all that is there now was read."""
    most_rows: int = 50_000
    """Of a batch of alerts; of a log, files instead: 100."""
    partitions: int = 2
    """Tasks that topics are spread over; fixed when a stream begins."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's Kafka source."""

    def __post_init__(self) -> None:
        if self.kafka is None and self.log is None:
            raise ConfigError("a stream needs a source: Kafka or an event log")
        if self.alerts is None and self.traffic is None:
            raise ConfigError("a stream needs something to do: alerts or members")

    def identity(self) -> dict[str, Any]:
        """Return what may not change while a stream goes on: its checkpoint depends on it."""
        source = (
            f"event log {self.log.resolve()}"
            if self.log is not None
            else f"Kafka, topics {self.kafka.prefix}.*"
            if self.kafka is not None
            else ""
        )
        found: dict[str, Any] = {"form": _FORM, "source": source, "partitions": self.partitions}
        if self.log is not None:
            found["events"] = list(self.events)
        if self.alerts is not None:
            found["options"] = json.loads(json.dumps(dict(self.alerts.options)))
            found["late_s"] = self.alerts.late_s
        if self.traffic is not None:
            found["window_s"] = self.traffic.window_s
            found["repeats_s"] = self.traffic.repeats_s
        return found

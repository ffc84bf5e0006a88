"""The numbers of a server for Prometheus: plain counts on the hot path, a form for them on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from heapq import nlargest

from nearcast.runtime.metric_names import COUNTERS, GAUGES, LOSSES, TABLES
from nearcast.runtime.metric_text import MetricText
from nearcast.server.outputs import StageDelays
from nearcast.server.tables import TableSize

__all__ = ["STAGES", "Gauges", "ServerMetrics", "StageHistogram"]

STAGES = (
    "publish_leg",
    "processing",
    "between",
    "total_to_home",
    "sync",
    "loop_lag",
    "switch_pause",
)
"""Publisher to home, waiting and processing, broker to home, the three together; a round of the
spool; how late the event loop is; how long a stream waited until this server owned it."""

_BOUNDS_S = (*(float(f"{one}e{power}") for power in range(-4, 1) for one in (1, 2, 5)), 10.0)
_BOUND_NAMES = (*map(repr, _BOUNDS_S), "+Inf")
_MOST_TOPICS = 100
Loss = int | Mapping[str, int] | None
"""A count, or counts by reason; None where nobody counts."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """How the server is now."""

    sessions: int = 0
    sessions_half_open: int = 0
    sessions_muted: int = 0
    group_members: int = 0
    topics: int = 0
    topics_elsewhere: int = 0
    publishers: int = 0
    streams: int = 0
    subscriptions: int = 0
    interests: int = 0
    handover_notifications: int = 0
    mesh_waiting: int = 0
    flow_queued: int = 0
    flow_outgoing: int = 0
    storage_used: float = 0.0
    """Sum of the spool sizes, in messages."""
    storage_limit: float | None = None
    compute_used: float = 0.0
    """Sum of spool size x publishers."""
    compute_limit: float | None = None
    uncommitted_groups: int = 0
    uncommitted_seconds: float = 0.0
    """How long the oldest of them has waited for the disk."""
    event_log_rows_held: int = 0
    """Rows of the event log in memory."""
    event_log_segments_written: int = 0
    kafka_records_sent: int = 0
    kafka_records_waiting: int = 0
    mesh_resent: int = 0
    """Messages to other servers that were sent again."""
    mesh_links: int = 0
    """Connections to other servers."""
    mesh_links_down: int = 0
    """Other servers that cannot be reached."""
    credential_days_left: float | None = None
    """Of the server's own."""
    servers_not_trusted: int = 0
    processors_hung: int = 0
    overlay_keys: int = 0
    overlay_servers_known: int = 0
    overlay_repairs: int = 0
    mesh_sent_bytes: int = 0
    mesh_received_bytes: int = 0
    spool_messages: Mapping[str, int] = field(default_factory=dict)
    """By topic."""
    spool_bytes: Mapping[str, int] = field(default_factory=dict)
    """By topic."""


class StageHistogram:
    """Counts of durations, by bucket."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration; below 0, as clocks that disagree make it, counts as 0."""
        if duration_s < 0.0:
            duration_s = 0.0
        self.counts[bisect_left(_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


class ServerMetrics:
    """Everything that one server counts.

    The counters may be replaced by those that the state machines keep.
    """

    def __init__(self, server_id: str) -> None:
        self.counts: Counter[str] = Counter()
        """Events by name: letters, digits and underscores."""
        self.drops: Counter[str] = Counter()
        """What clients sent and was dropped, by reason; reasons are few."""
        self.refused_publications: Counter[str] = Counter()
        """By reason."""
        self.read_gauges: Callable[[], Gauges] = Gauges
        """Called at each scrape."""
        self.read_losses: Callable[[], Mapping[str, Loss]] = dict
        """Called at each scrape: losses that other parts count, by their names in `LOSSES`."""
        self.read_tables: Callable[[], Mapping[str, TableSize]] = dict
        """Called at each scrape: tables that clients or other servers can fill."""
        self.queue_age_s = 0.0
        """How long the last datagram waited in the kernel."""
        self.loop_lag_s = 0.0
        """How late the event loop was last."""
        self.stages = {stage: StageHistogram() for stage in STAGES}
        self._server_id = server_id

    def observe(self, stage: str, durations_s: Iterable[float]) -> None:
        """Count how long a stage took, many times at once."""
        observe = self.stages[stage].observe
        for duration_s in durations_s:
            observe(duration_s)

    def observe_delays(self, delays: Iterable[StageDelays]) -> None:
        """Count where notifications spent their time."""
        stages = self.stages
        legs, processing = stages["publish_leg"].observe, stages["processing"].observe
        between, total = stages["between"].observe, stages["total_to_home"].observe
        for publish_leg_us, processing_us, between_us in delays:
            legs(publish_leg_us / 1e6)
            processing(processing_us / 1e6)
            between(between_us / 1e6)
            total((publish_leg_us + processing_us + between_us) / 1e6)

    def observe_lag(self, lag_s: float) -> None:
        """Note how late the event loop was."""
        self.loop_lag_s = lag_s
        self.stages["loop_lag"].observe(lag_s)

    def losses(self) -> dict[str, Loss]:
        """Return all that was lost or given up, by its name in `LOSSES`."""
        found: dict[str, Loss] = {name: self.counts.get(name, 0) for name in LOSSES}
        found["drops"] = dict(self.drops)
        found["refused_publications"] = dict(self.refused_publications)
        return found | dict(self.read_losses())

    def text(self) -> bytes:
        """Return all of it in the text form of Prometheus."""
        text = MetricText({"server": self._server_id})
        losses = self.losses()
        for name in sorted({*COUNTERS, *self.counts} - losses.keys()):
            meaning = COUNTERS.get(name) or name.replace("_", " ")
            text.add(f"nearcast_{name}_total", "counter", meaning, self.counts.get(name, 0))
        for name, loss in losses.items():
            metric = f"nearcast_{name}_total", "counter", LOSSES[name]
            if isinstance(loss, Mapping):
                text.add_by(*metric, "reason", sorted(loss.items()))
            elif loss is not None:
                text.add(*metric, loss)
        gauges = self.read_gauges()
        values = {item.name: getattr(gauges, item.name) for item in fields(gauges)}
        values |= {"queue_age_seconds": self.queue_age_s, "loop_lag_seconds": self.loop_lag_s}
        for name, value in values.items():
            metric = f"nearcast_{name}", "gauge", GAUGES[name]
            if isinstance(value, Mapping):
                text.add_by(*metric, "topic", _largest(value))
            elif value is not None:  # without a limit there is nothing to show
                text.add(*metric, value)
        for at, (name, meaning) in enumerate(TABLES.items()):
            sizes = [(table, size[at]) for table, size in sorted(self.read_tables().items())]
            text.add_by(f"nearcast_{name}", "gauge", meaning, "table", sizes)
        text.add_histograms(
            "nearcast_stage_seconds",
            "How long stages took.",
            "stage",
            (
                (stage, zip(_BOUND_NAMES, one.counts, strict=True), one.sum_s)
                for stage, one in self.stages.items()
            ),
        )
        return text.encode()


def _largest(values: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the largest topics: a site with very many would swamp Prometheus."""
    least = min(nlargest(_MOST_TOPICS, values.values()), default=0)  # quick: numbers only
    large = [pair for pair in values.items() if pair[1] >= least]
    return sorted(large, key=lambda pair: (-pair[1], pair[0]))[:_MOST_TOPICS]

"""The numbers of a server for Prometheus: plain counts on the hot path, a form for them on demand.

The event loop adds to counters and histograms; a scrape, in its own thread, reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from nearcast.server.outputs import StageDelays

__all__ = ["STAGES", "Gauges", "ServerMetrics", "StageHistogram"]

STAGES = ("publish_leg", "processing", "between", "total_to_home", "sync", "loop_lag")
"""Publisher to home, waiting and processing, broker to home, the three together; a round of the
spool; how late the event loop is."""

_BOUNDS_S = (*(float(f"{one}e{power}") for power in range(-4, 1) for one in (1, 2, 5)), 10.0)
_MOST_TOPICS = 100
_ALWAYS_SHOWN = (
    "publications",
    "notifications",
    "forwarded_in",
    "forwarded_out",
    "copies",
    "duplicates",
    "processor_failed",
    "processor_overrun",
    "processor_quarantined",
    "busy",
)


@dataclass(frozen=True, slots=True)
class Gauges:
    """How the server is now."""

    sessions: int = 0
    topics: int = 0
    storage_used: float = 0.0
    """Sum of the spool sizes, in messages."""
    storage_limit: float | None = None
    compute_used: float = 0.0
    """Sum of spool size x publishers."""
    compute_limit: float | None = None
    uncommitted_groups: int = 0
    uncommitted_seconds: float = 0.0
    """How long the oldest of them has waited for the disk."""
    mesh_resent: int = 0
    """Messages to other servers that were sent again."""
    mesh_dropped: int = 0
    """Messages to other servers that were given up, because too many waited."""
    mesh_links: int = 0
    """Connections to other servers."""
    mesh_links_down: int = 0
    """Other servers that cannot be reached."""
    mesh_link_drops: int = 0
    """Frames to other servers for which a link had no room; they are sent again."""
    mesh_sent_bytes: int = 0
    mesh_received_bytes: int = 0
    mesh_rejected: int = 0
    """Connections of others that were not accepted: unknown keys, broken handshakes."""
    kernel_drops: int | None = None
    """Datagrams that found the receive buffer full."""
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
        duration_s = max(0.0, duration_s)
        self.counts[bisect_left(_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


class ServerMetrics:
    """Everything that one server counts.

    The counters may be replaced by those that the state machines keep; `read_gauges` is called
    in the thread of a scrape.
    """

    def __init__(self, server_id: str) -> None:
        self.counts: Counter[str] = Counter()
        """Events by name: letters, digits and underscores."""
        self.drops: Counter[str] = Counter()
        """What clients sent and was dropped, by reason; reasons are few."""
        self.read_gauges: Callable[[], Gauges] = Gauges
        self.queue_age_s = 0.0
        """How long the last datagram waited in the kernel."""
        self.loop_lag_s = 0.0
        """How late the event loop was last."""
        self.stages = {stage: StageHistogram() for stage in STAGES}
        self._server_id = server_id
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, stage: str, durations_s: Iterable[float]) -> None:
        """Count how long a stage took, many times at once."""
        observe = self.stages[stage].observe
        for duration_s in durations_s:
            observe(duration_s)

    def observe_delays(self, delays: Iterable[StageDelays]) -> None:
        """Count where notifications spent their time."""
        stages = self.stages
        for publish_leg_s, processing_s, between_s in delays:
            stages["publish_leg"].observe(publish_leg_s)
            stages["processing"].observe(processing_s)
            stages["between"].observe(between_s)
            stages["total_to_home"].observe(publish_leg_s + processing_s + between_s)

    def observe_lag(self, lag_s: float) -> None:
        """Note how late the event loop was."""
        self.loop_lag_s = lag_s
        self.stages["loop_lag"].observe(lag_s)

    def text(self) -> bytes:
        """Return all of it in the text form of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Return all of it for Prometheus' library."""
        counts, drops = dict(self.counts), dict(self.drops)
        for name in sorted({*_ALWAYS_SHOWN, *counts}):
            counter = CounterMetricFamily(f"nearcast_{name}", _words(name), labels=["server"])
            counter.add_metric([self._server_id], counts.get(name, 0))
            yield counter
        dropped = CounterMetricFamily("nearcast_drops", "dropped", labels=["server", "reason"])
        for reason, count in sorted(drops.items()):
            dropped.add_metric([self._server_id, reason], count)
        yield dropped
        gauges = self.read_gauges()
        values = {item.name: getattr(gauges, item.name) for item in fields(gauges)}
        values |= {"queue_age_seconds": self.queue_age_s, "loop_lag_seconds": self.loop_lag_s}
        for name, value in values.items():
            if isinstance(value, Mapping):
                yield self._by_topic(name, value)
            elif value is not None:  # without a limit there is nothing to show
                gauge = GaugeMetricFamily(f"nearcast_{name}", _words(name), labels=["server"])
                gauge.add_metric([self._server_id], value)
                yield gauge
        stages = HistogramMetricFamily(
            "nearcast_stage_seconds", "how long stages took", labels=["server", "stage"]
        )
        for stage, histogram in self.stages.items():
            stages.add_metric([self._server_id, stage], *_cumulative(histogram))
        yield stages

    def _by_topic(self, name: str, values: Mapping[str, int]) -> Metric:
        """Show the largest topics; a site with very many would swamp Prometheus."""
        text = f"{_words(name)} of the {_MOST_TOPICS} largest topics"
        family = GaugeMetricFamily(f"nearcast_{name}", text, labels=["server", "topic"])
        largest = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_TOPICS]
        for topic, value in largest:
            family.add_metric([self._server_id, topic], value)
        return family


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cumulative(histogram: StageHistogram) -> tuple[list[tuple[str, float]], float]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound_s, count in zip((*map(repr, _BOUNDS_S), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound_s, total))
    return buckets, histogram.sum_s

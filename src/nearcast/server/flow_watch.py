"""How flows are doing at this server: told to the manager, counted for metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearcast.flow.flow_report import FlowReport
from nearcast.server.effects import Effects
from nearcast.server.flow_messages import FlowEvent, FlowReports
from nearcast.server.peers import Peers

__all__ = ["COUNTED", "FlowWatch"]

_MOST_UNACKNOWLEDGED = 2
COUNTED = ("processed", "early", "overflowed", "set_aside", "mapping_errors")
"""What of a component's report is counted as a metric `flow_...`."""
_Key = tuple[str, int, str]
"""Flow, run, component."""


class FlowWatch:
    """Reads the flows every few seconds.

    Parameters
    ----------
    measure
        Returns how the flows are doing.
    """

    def __init__(
        self,
        peers: Peers,
        effects: Effects,
        interval_s: float,
        measure: Callable[[], Sequence[FlowReport]],
    ) -> None:
        self._peers, self._effects, self._interval_s = peers, effects, interval_s
        self._measure = measure
        self._next = float("-inf")
        self._read_at = float("-inf")
        self._known: dict[_Key, tuple[int, ...]] = {}
        """The values of `COUNTED` when they were last read."""
        self._per_s: dict[str, dict[str, float]] = {}
        self.queued = self.outgoing = 0
        """Messages that waited for processors here, and for those of all servers, at that time."""

    def on_timer(self, now: float, events: Callable[[], tuple[FlowEvent, ...]]) -> None:
        """Read the flows if it is time, and tell the manager unless it is away."""
        if now < self._next:
            return
        self._next = now + self._interval_s
        self._count(now)
        manager = self._peers.manager
        if manager and self._peers.unacknowledged(manager) <= _MOST_UNACKNOWLEDGED:
            self._peers.send(manager, self.read(events()))

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._next

    def read(self, events: tuple[FlowEvent, ...]) -> FlowReports:
        """Return what there is to say now."""
        return FlowReports(tuple(self._measure()), self._per_s, events)

    def _count(self, now: float) -> None:
        counts, known, per_s = self._effects.counts, self._known, dict[str, dict[str, float]]()
        elapsed_s, self._read_at = max(now - self._read_at, 1e-3), now
        self._known, self.queued, self.outgoing = {}, 0, 0
        for flow in self._measure():
            for one in flow.components:
                key = (flow.flow, flow.run, one.component)
                before = known.get(key, (0,) * len(COUNTED))
                after = tuple(int(getattr(one, name)) for name in COUNTED)
                self._known[key] = after
                for name, old, new in zip(COUNTED, before, after, strict=True):
                    counts[f"flow_{name}"] += new - old
                rate = (after[0] - before[0]) / elapsed_s
                per_s.setdefault(flow.flow, {})[one.component] = rate
                self.queued += one.queued
                self.outgoing += one.outgoing
        self._per_s = per_s

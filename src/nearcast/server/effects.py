"""What a pass of a server has gathered so far: all parts write into it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from nearcast.broker.actions import TakenOver
from nearcast.broker.guard import GuardEvent, ProcessorReport
from nearcast.server.outputs import Incident, Outputs
from nearcast.server.tables import Tables
from nearcast.wire.clock_difference import ClockDifference

__all__ = ["Effects"]

_MOST_PAUSES = 512
_MOST_REASONS = 64
"""Of processors: each is a row of the metrics."""


class Effects:
    """The outputs of the pass that is going on, and what the server has counted."""

    def __init__(self, table_factor: float = 1.0) -> None:
        self.out = Outputs()
        self.tables = Tables(table_factor)
        """Those that clients or other servers can fill."""
        self.site_clock = ClockDifference()
        """How far the manager's clock is ahead: what messages carry is its time, so that servers
        and clients agree when something happened and until when it counts."""
        self.counts: Counter[str] = Counter()
        """What happened so far, by name; for metrics and the manager."""
        self.pauses_s: deque[float] = deque(maxlen=_MOST_PAUSES)
        """How long streams waited until this server owned them, since the last report."""
        self.refused_publications: Counter[str] = Counter()
        """Publications that clients or other servers should not have sent, by reason."""
        self.processor_refused: Counter[str] = Counter()
        """Messages that processors could read and did not take, by their reasons."""

    def incident(self, event: str, **fields: object) -> None:
        """Put something into the server's own log."""
        self.out.incidents.append(Incident(event, fields))

    def note_processor(self, report: ProcessorReport) -> None:
        """Count and log what a processor did wrong or did not take."""
        what, reason, known = report.event.value, report.detail, self.processor_refused
        if report.event is not GuardEvent.REFUSED:
            self.counts[f"processor_{what}"] += report.count
        elif reason in known or len(known) < _MOST_REASONS:
            known[reason] += report.count
        else:  # users' code chooses the reasons
            known["other"] += report.count
        self.incident("processor", topic=report.topic, what=what, detail=reason)

    def note_taken_over(self, streams: Iterable[TakenOver]) -> None:
        """Count streams that servers which are away may own too; those of a pass share a line."""
        lost: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for topic, publisher, given_up in streams:
            self.counts["streams_taken_over"] += 1
            lost.setdefault(given_up, {}).setdefault(topic, []).append(publisher)
        for given_up, publishers in lost.items():
            self.incident("streams_taken_over", given_up=given_up, publishers=publishers)

    def take_pauses(self) -> tuple[float, ...]:
        """Return how long streams waited, since the last call."""
        pauses_s = tuple(self.pauses_s)
        self.pauses_s.clear()
        return pauses_s

    def take(self) -> Outputs:
        """Return what the pass wants done, and begin the next one."""
        out, self.out = self.out, Outputs()
        return out

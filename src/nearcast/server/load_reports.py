"""What a server reports to the manager, and which orders it says it has."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import ClockTold, Hello, LoadReport
from nearcast.server.peers import Peers
from nearcast.server.site_orders import Orders
from nearcast.server.stream_targets import StreamTargets
from nearcast.trust.site_trust import SiteTrust

__all__ = ["LoadReports", "read_load"]

_MOST_UNACKNOWLEDGED = 2


class LoadReports:
    """Tells the manager every few seconds how loaded the server is, and hears what time it is.

    Parameters
    ----------
    effects
        Its `site_clock` learns how far the manager's clock is ahead.
    measure
        Returns the report of the moment.
    """

    def __init__(
        self,
        peers: Peers,
        effects: Effects,
        measure: Callable[[], LoadReport],
        interval_s: float,
    ) -> None:
        self._peers, self._measure, self._interval_s = peers, measure, interval_s
        self._site_clock, self._asked_us = effects.site_clock, -1
        # a server on its own has nobody to report to
        self._next_report = float("-inf") if peers.manager else float("inf")
        self._said_hello = False
        peers.on(ClockTold, self._on_clock)

    def on_timer(self, now: float) -> None:
        """Report if it is time, unless the manager is away: reports would pile up."""
        if now < self._next_report:
            return
        self._next_report = now + self._interval_s
        report = self._measure()
        if not self._said_hello:
            self._said_hello = True
            self._peers.send(self._peers.manager, Hello(report.revision))
        if self._peers.unacknowledged(self._peers.manager) <= _MOST_UNACKNOWLEDGED:
            self._asked_us = int(now * 1e6)
            self._peers.send(self._peers.manager, replace(report, asked_us=self._asked_us))

    def _on_clock(self, server: str, told: ClockTold, now: float) -> None:
        if server != self._peers.manager:
            raise WireError("another server than the manager tells the time")
        if told.asked_us == self._asked_us:  # else to an earlier question, which took longer
            self._site_clock.learn(self._asked_us / 1e6, told.told_us / 1e6, now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._next_report


def read_load(
    orders: Orders | None,
    sessions: int,
    topics: int,
    targets: StreamTargets,
    effects: Effects,
    trust: SiteTrust,
    loop_lag_s: float,
) -> LoadReport:
    """Return the report of the moment; what streams waited is told once."""
    counts = effects.counts
    return LoadReport(
        orders.revision if orders is not None else 0,
        sessions,
        topics,
        targets.storage_used,
        targets.compute_used,
        targets.delegated_streams,
        targets.local_streams,
        counts["publications"] + counts["forwarded_in"],
        counts["notifications"],
        loop_lag_s,
        trust.newer_list(orders.revocations if orders else b""),
        effects.take_pauses(),
    )

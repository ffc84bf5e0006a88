"""Master-slave's misdeliveries by how busy its master is, which the LASR paper leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearcast.experiments.figures.summary import interval_of
from nearcast.experiments.figures.thresholds import TWICE
from nearcast.experiments.lasr.testbed import JoseTestbed
from nearcast.experiments.lasr.trial import SystemKind, run_trial

__all__ = ["BusyMaster", "busy_masters", "told_beside"]

_SHARES = (0.8, 1.0, 1.02, 1.05, 1.1)
"""Of its time that the master would need for all questions; above 1 they wait longer and longer."""
_PAPER_SLOWEST_MS = 80.0
"""Figure 6: the slowest of s1's messages, of both systems."""


@dataclass(frozen=True, slots=True)
class BusyMaster:
    """What came of a master that needs so long for a question."""

    share: float
    query_ms: float
    misdelivered: float
    """A trial."""
    slowest_ms: float
    """Of all messages of s1."""


def busy_masters(testbed: JoseTestbed, trials: int) -> list[BusyMaster]:
    """Run master-slave with masters that are asked as often, and take longer to answer."""
    devices = testbed.brokers * (testbed.devices + testbed.other_devices)
    found = []
    for share in _SHARES:
        query_s = share * testbed.period_s / devices
        slow = replace(testbed, query_s=query_s)
        some = [run_trial(SystemKind.MASTER_SLAVE, slow, seed) for seed in range(trials)]
        misdelivered = interval_of([len(one.misdelivered()) for one in some]).mean
        slowest_ms = max(one.delay_ms for trial in some for one in trial.arrivals)
        found.append(BusyMaster(share, 1000 * query_s, misdelivered, slowest_ms))
    return found


def told_beside(masters: Sequence[BusyMaster], lasr: float) -> tuple[str, ...]:
    """Return whether each of them misdelivers more than twice as many as LASR, in words."""
    return tuple(
        f"a master that needs {one.query_ms:.2g} ms a question, {100 * one.share:.0f} % of its time: "
        f"{'agrees' if one.misdelivered > TWICE * lasr else 'does not agree'} "
        f"({one.misdelivered:.1f} a trial; s1's slowest message took {one.slowest_ms:.0f} ms, "
        f"{_PAPER_SLOWEST_MS:.0f} in the paper)"
        for one in masters
    )

"""One schedule: a small site, a workload, faults drawn from a seed, and what became of it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nearcast.experiments.survive.checker import Findings, check
from nearcast.experiments.survive.faults import (
    FAULTS,
    HOSTILE,
    LONG_OUTAGES_S,
    SHORT_OUTAGES_S,
    Faults,
)
from nearcast.experiments.survive.trial_site import TrialSite

__all__ = ["LOSSLESS", "Schedule", "run_hostile", "run_long_outages", "run_schedule"]

LOSSLESS = frozenset({"kill_manager", "restart_publisher", "switch_plan"})
"""Faults after which nothing has to be sent again: subscribers hear nothing late."""
_LONG_OUTAGES = (
    *("kill", "kill", "kill_manager", "kill_manager", "switch_plan", "cut_power", "cut"),
    *("pause", "crash", "go_offline"),
)
_LONG_RESTS_S = (0.0, 2.0, 6.0, 12.0, 25.0)
_HEAL_S = 60
_QUIET_S = 12.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happened in a schedule."""

    seed: int
    faults: Counter[str]
    findings: Findings


def run_schedule(
    seed: int,
    kinds: Sequence[str] = tuple(FAULTS),
    *,
    faults: int = 6,
    messages: int = 4,
    takeover_s: float = 3.0,
    outages_s: Sequence[float] = SHORT_OUTAGES_S,
    rests_s: Sequence[float] = (0.0, 0.3, 2.0),
) -> Schedule:
    """Run the schedule of a seed: the same seed gives the same one.

    Parameters
    ----------
    kinds
        Faults to draw from.
    faults
        How many.
    messages
        Published around each fault.
    takeover_s
        How long a server is away before others go on without it.
    outages_s
        How long faults last, about; drawn for each.
    rests_s
        How long nothing new happens after one; drawn for each.
    """
    trial = TrialSite(
        seed,
        edges=2 + seed % 2,
        publishers=1 + seed % 3,
        subscribers=1 + seed // 2 % 2,
        topics=1 + seed // 4 % 2,
        spool=1_000 if seed % 5 else 6,
        notify_after_sync=seed % 2 == 0,
        is_in_order=not set(kinds) - LOSSLESS,
        takeover_s=takeover_s,
    )
    trial.site.is_overheard = "forge" in kinds
    trial.start()
    injected = Faults(trial, outages_s)
    for _ in range(faults):
        trial.publish_some(messages, 0.1)
        injected.inject(trial.rng.choice(kinds))
        trial.publish_some(messages, 0.1)
        trial.site.run(trial.rng.choice(rests_s))
    injected.heal()
    for _ in range(_HEAL_S):
        trial.site.run(1.0)
        if not trial.waiting:
            break
    trial.publish_some(messages, 0.1)
    trial.site.run(_QUIET_S)
    return Schedule(seed, injected.counts, check(trial))


def run_long_outages(seed: int, takeover_s: float = 3.0) -> Schedule:
    """Run a schedule of faults that last long enough for clients to go elsewhere."""
    return run_schedule(
        seed,
        _LONG_OUTAGES,
        takeover_s=takeover_s,
        outages_s=LONG_OUTAGES_S,
        rests_s=_LONG_RESTS_S,
    )


def run_hostile(seed: int) -> Schedule:
    """Run a schedule with forged senders, clocks that are wrong, and spools that are spoiled."""
    return run_schedule(seed, (*FAULTS, *2 * tuple(HOSTILE)), faults=8)

"""All parts of the proof one after the other: ``nearcast bench survive``."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearcast.experiments.survive.attacks import run_attacks
from nearcast.experiments.survive.bad_input import run_bad_input
from nearcast.experiments.survive.flood import run_floods
from nearcast.experiments.survive.hostile_members import run_hostile_members
from nearcast.experiments.survive.live_faults import LiveCounts, run_live
from nearcast.experiments.survive.mutants import run_mutants
from nearcast.experiments.survive.schedule import run_hostile, run_long_outages, run_schedule

__all__ = ["PARTS", "SurviveResult", "run"]

PARTS = ("processes", "flood", "attacks", "bad input", "mutants", "schedules")
_WHOLE_MINUTES = 5.0
"""A run of this length has all counts; a shorter one its share of them."""
_SCHEDULES_SHARE = 0.4
_KINDS = 10
"""One in so many schedules has outages after which clients go elsewhere, another one is hostile."""
_FLOOD_PER_S = 50_000.0
_FLOOD_S = 10.0
Begin = Callable[[str], object]


@dataclass(slots=True)
class SurviveResult:
    """Counts of what was tried, measurements, and each promise that was not kept."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    switch_pause_p99_s: float | None = None
    """How long streams waited in plan switches under load."""
    measured: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "seed": self.seed,
            "counts": {**self.counts, "switch_pause_p99_s": self.switch_pause_p99_s},
            "measured": self.measured,
            "violations": self.violations,
        }


def run(minutes: float, seed: int, begin: Begin = str) -> SurviveResult:
    """Run all parts for about so many minutes; schedules get what is left of the time."""
    began_s = time.monotonic()
    result, share = SurviveResult(seed), min(1.0, minutes / _WHOLE_MINUTES)
    begin(PARTS[0])
    _run_processes(result, share)
    begin(PARTS[1])
    _run_flood(result, share)
    begin(PARTS[2])
    _run_attacks(result, share)
    begin(PARTS[3])
    _run_bad_input(result, share)
    begin(PARTS[4])
    _run_mutants(result)
    begin(PARTS[5])
    least_s = 60 * minutes * _SCHEDULES_SHARE * share
    ends_s = max(began_s + 60 * minutes, time.monotonic() + least_s)
    for number in _until(ends_s):
        _run_schedule(result, seed * 1_000_000 + number)
    return result


def _run_processes(result: SurviveResult, share: float) -> None:
    whole = LiveCounts()
    counts = LiveCounts(
        max(3, round(whole.kills * share)),
        max(1, round(whole.pauses * share)),
        max(1, round(whole.cuts * share)),
        max(1, round(whole.switches * share)),
        max(1_000, round(whole.acknowledged * share)),
    )
    with tempfile.TemporaryDirectory(prefix="nearcast-survive-") as folder:
        report = asyncio.run(run_live(Path(folder), counts, result.seed))
    result.counts.update(report.faults)
    result.counts["crash_steps"] += len(+report.steps)
    result.counts["acknowledged"] += report.acknowledged
    result.counts["notifications"] += report.heard
    result.counts["takeovers"] += report.takeovers
    result.counts["taken_over"] += report.in_doubt
    result.switch_pause_p99_s = report.switch_pause_p99_s
    result.violations += [f"processes: {one}, seed {result.seed}" for one in report.violations]


def _run_flood(result: SurviveResult, share: float) -> None:
    with tempfile.TemporaryDirectory(prefix="nearcast-survive-") as folder:
        seconds = max(2.0, _FLOOD_S * share)
        found = asyncio.run(run_floods(Path(folder), seconds, _FLOOD_PER_S, result.seed))
    for name, one in found.items():
        result.measured |= one.measured(name)


def _run_attacks(result: SurviveResult, share: float) -> None:
    report = run_attacks(max(50, round(4_000 * share)), result.seed)
    result.counts["attacks"] += report.attacks.total()
    result.measured["amplification"] = report.amplification
    result.violations += [f"attacks: {one}" for one in report.violations]
    if report.amplification > 1:
        result.violations.append(f"attacks: amplification {report.amplification:.2f}")


def _run_bad_input(result: SurviveResult, share: float) -> None:
    report = run_bad_input(max(10_000, round(1_000_000 * share)), result.seed)
    hostile = run_hostile_members(max(1_000, round(20_000 * share)), result.seed)
    result.counts["bad_inputs"] += report.inputs.total() + hostile.inputs
    result.violations += [f"bad input: {one}" for one in (*report.violations, *hostile.violations)]


def _run_mutants(result: SurviveResult) -> None:
    report = run_mutants()
    result.counts["mutants"] += len(report.caught) + len(report.survived)
    result.counts["mutants_caught"] += len(report.caught)
    result.violations += [f"mutants: nothing notices {one!r}" for one in report.survived]


def _run_schedule(result: SurviveResult, seed: int) -> None:
    run_it = {0: run_long_outages, 5: run_hostile}.get(seed % _KINDS, run_schedule)
    schedule = run_it(seed)
    counts, found = result.counts, schedule.findings
    counts["schedules"] += 1
    counts["faults"] += schedule.faults.total()
    counts["acknowledged"] += found.acknowledged
    counts["notifications"] += found.heard
    counts["taken_over"] += found.taken_over
    counts["damaged"] += found.damaged
    counts["switches"] += schedule.faults["switch_plan"]
    result.violations += [
        f"schedule: {kind}: {text}, seed {seed}" for kind, text in found.violations
    ]


def _until(ends_s: float) -> Iterator[int]:
    number = 0
    while time.monotonic() < ends_s:
        yield number
        number += 1

"""The bench: a live site whose clients move, beside a plan that was made with full knowledge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.experiments.closed_loop.moving import mirrored
from nearcast.experiments.closed_loop.rounds import (
    FULL_KNOWLEDGE,
    LoopRun,
    LoopSettings,
    Phase,
    processed_twice,
    watch_rounds,
)
from nearcast.experiments.site_measure import connected_swarm
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.planning.assessment import assess_homes
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, make_plan
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import run_site

__all__ = ["LoopPoint", "LoopVerdict", "judge", "run", "step_count"]

TOLERANCE = 0.10
_LOG_SEGMENT_S = 2.0
"""Of the event log: a round learns from what is written."""
_OTHER_STEPS = 8


@dataclass(frozen=True, slots=True)
class LoopPoint:
    """A phase: what clients measured, and what the model says. Delays are as emulated."""

    phase: str
    predicted_ms: float | None
    """Of the plan in force at its end; of a round, with everybody where the log had them."""
    measured_ms: float
    of_full_knowledge: float
    """Measured, to what a plan made with full knowledge reaches: measured, or what it costs by the
    model times what the machine added to the model before the clients moved, if that is less."""
    switched: bool | None = None
    migrations: int | None = None
    moved_clients: int | None = None
    streams: int | None = None
    pause_p50_ms: float | None = None
    pause_p99_ms: float | None = None
    log_before_ms: float | None = None
    log_after_ms: float | None = None
    """As the round tells it from the log: without the last leg."""
    round_s: float | None = None
    """Until all servers had the plan."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """Whether the loop keeps what it promises."""

    published: int
    acknowledged: int
    notifications: int
    lost: int
    doubled: int
    processed_twice: int
    of_full_knowledge: float
    """After the last round."""
    holds: bool


def step_count(settings: LoopSettings) -> int:
    """Return how often `run` begins a step."""
    return _OTHER_STEPS + settings.rounds + settings.is_watched_before


def run(
    city: City,
    settings: LoopSettings,
    delay_factor: float,
    begin: Callable[[str], None] = lambda step: None,
) -> tuple[list[LoopPoint], LoopVerdict]:
    """Run a site, have clients move, and measure phase by phase."""
    scenario = generate_city(city, settings.seed)
    after = mirrored(scenario, settings.share, np.random.default_rng(settings.seed))
    with tempfile.TemporaryDirectory(prefix="nearcast-loop-") as text:
        folder = Path(text)
        begin("planning")
        first = _plan(scenario, settings, folder / "before")
        best = _plan(after, settings, folder / "after")
        options = SiteSettings(
            plan=folder / "before" / "plan",
            delay_factor=delay_factor,
            log_segment_s=_LOG_SEGMENT_S,
        )
        begin("starting Spark")
        session = SparkSettings(name="nearcast bench loop", ui=False, is_short_lived=True)
        with open_session(session) as spark:
            begin("starting servers")
            with run_site(folder / "before" / "scenario", folder / "site", options) as live:

                async def act() -> LoopRun:
                    async with connected_swarm(live, begin) as swarm:
                        return await watch_rounds(
                            live, swarm, spark, after, settings, begin, folder / "after"
                        )

                import uvloop

                seen = uvloop.run(act())
        twice = processed_twice(folder / "site" / "log")
    costs = {
        "before": first.assessment.cost,
        "moved": assess_homes(after, first.plan.homes, Model.RATIO).cost,
        FULL_KNOWLEDGE: best.assessment.cost,
    }
    return judge(seen, costs, delay_factor, twice)


def judge(
    seen: LoopRun, costs: Mapping[str, float], delay_factor: float, twice: int
) -> tuple[list[LoopPoint], LoopVerdict]:
    """Return all phases, and whether the last round is as good as full knowledge.

    Parameters
    ----------
    costs
        By phase, ms by the model, where no round says it.
    """
    measured_ms = {one.name: one.measured_ms for one in seen.phases}
    # full knowledge is measured right after a switch: what disturbed that would flatter the rounds
    expected_ms = costs[FULL_KNOWLEDGE] * measured_ms["before"] / costs["before"]
    full_ms = min(measured_ms[FULL_KNOWLEDGE], expected_ms)
    points = [_point(one, costs, delay_factor, full_ms) for one in seen.phases]
    last = [point for point in points if point.switched is not None][-1]
    (moved,) = (point for point in points if point.phase == "moved")
    # where all is slow after a switch, full knowledge is no measure
    is_better = last.measured_ms < moved.measured_ms
    counts = seen.counts
    is_whole = counts.acknowledged == counts.published and not (
        counts.lost or counts.doubled or twice
    )
    return points, LoopVerdict(
        published=counts.published,
        acknowledged=counts.acknowledged,
        notifications=counts.expected,
        lost=counts.lost,
        doubled=counts.doubled,
        processed_twice=twice,
        of_full_knowledge=last.of_full_knowledge,
        holds=is_whole and is_better and last.of_full_knowledge <= 1 + TOLERANCE,
    )


def _plan(scenario: Scenario, settings: LoopSettings, folder: Path) -> PlanOutcome:
    limit_s = settings.time_limit_s
    request = PlanRequest(
        Model.RATIO,
        "optimised",
        seed=settings.seed,
        time_limit_s=2 * limit_s,
        bound_limit_s=limit_s,
    )
    outcome = make_plan(scenario, request)
    folder.mkdir()
    write_scenario(scenario, folder / "scenario")
    write_plan(outcome.plan, outcome.report, scenario, folder / "plan")
    return outcome


def _point(phase: Phase, costs: Mapping[str, float], factor: float, full_ms: float) -> LoopPoint:
    done, ratio = phase.done, phase.measured_ms / full_ms
    if done is None:
        return LoopPoint(phase.name, factor * costs[phase.name], phase.measured_ms, ratio)
    cost = done.cost_after if done.switched else done.cost_before
    return LoopPoint(
        phase.name,
        None if cost is None else factor * cost,
        phase.measured_ms,
        ratio,
        done.switched,
        done.migrations if done.switched else 0,
        done.moved_clients,
        done.streams,
        done.pause_p50_ms,
        done.pause_p99_ms,
        done.measured_before_ms,
        done.measured_after_ms,
        done.work_s,
        done.reason,
    )

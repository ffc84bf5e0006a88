"""One plan of the demo at work: a site runs it, all clients take part, everything is timed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nearcast.errors import NearcastError
from nearcast.experiments.closed_loop.rounds import LoopRun
from nearcast.experiments.demo_loop import show_loop
from nearcast.experiments.site_measure import LiveSettings, measure_site_clients
from nearcast.planning.solve import PlanOutcome
from nearcast.planning.stopping import Stopwatch
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import LiveSite, run_site
from nearcast.site.swarm import Swarm, SwarmResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STEPS_OF_A_SITE", "DemoTeller", "MethodRun", "PlannedBy", "run_plan"]

STEPS_OF_A_SITE = 5


class DemoTeller(Protocol):
    """Who wants to know how far the demo is."""

    def begin(self, step: str) -> None:
        """Take note that a step begins, and the one before has ended."""

    def count(self, done: int, total: int) -> None:
        """Take note of how far the step is; may come from another thread."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedBy:
    """A method's plan."""

    method: str
    outcome: PlanOutcome
    folder: Path


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """A plan, and what became of it on the site."""

    planned: PlannedBy
    result: SwarmResult
    startup_s: float
    """Until all servers were ready."""
    seconds: float
    loop: LoopRun | None = None
    """What followed: clients moved, and the site planned itself anew."""

    @property
    def method(self) -> str:
        """Who planned."""
        return self.planned.method


def run_plan(
    planned: PlannedBy,
    folder: Path,
    settings: LiveSettings,
    teller: DemoTeller,
    spark: SparkSession | None = None,
) -> MethodRun:
    """Run a plan of the scenario in ``run/scenario`` of the demo's folder.

    Parameters
    ----------
    spark
        With it clients move at the end, and the site plans itself anew.
    """
    watch = Stopwatch()
    with _site(planned, folder, settings, teller) as live:
        startup_s = watch.seconds()
        begin = partial(_begin_step, teller, planned.method)
        seen: list[tuple[float, LoopRun]] = []

        async def plan_anew(swarm: Swarm) -> None:
            assert spark is not None
            seen.append((watch.seconds(), await show_loop(live, swarm, spark, begin)))

        then = None if spark is None else plan_anew
        result = measure_site_clients(live, settings, begin, teller.count, is_warm=True, then=then)
    if not result.arrivals:
        raise NearcastError(f"no notification arrived under the plan of {planned.method}")
    measured_s, loop = seen[0] if seen else (watch.seconds(), None)
    return MethodRun(planned, result, startup_s, measured_s, loop)


@contextmanager
def _site(
    planned: PlannedBy, folder: Path, settings: LiveSettings, teller: DemoTeller
) -> Iterator[LiveSite]:
    """Run a site of its own for a plan: what an earlier demo left must not be in its spools."""
    teller.begin(f"{planned.method}: starting servers")
    place = folder / f"site-{planned.method}"
    if (place / "site.json").exists():
        shutil.rmtree(place)
    servers, ready = planned.outcome.assessment.local_share.size + 2, 0

    def on_ready(_server: str) -> None:
        nonlocal ready
        ready += 1
        teller.count(ready, servers)

    options = SiteSettings(plan=planned.folder, delay_factor=settings.delay_factor)
    with run_site(folder / "run" / "scenario", place, options, on_ready) as live:
        yield live


def _begin_step(teller: DemoTeller, method: str, step: str) -> None:
    teller.begin(f"{method}: {step}")

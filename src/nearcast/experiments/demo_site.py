"""The whole system on a generated city: its log, what Spark learns, plans, a site that runs them.

The plans come from what was learned from the log, not from the city itself.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.errors import NearcastError
from nearcast.experiments.demo_log import LogFacts, compare_with_truth, write_log, write_sites
from nearcast.experiments.live_delays import LiveSettings
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.progress import TaskProgress, watch_tasks
from nearcast.pipeline.run import RunResult, RunSettings, prepare_run_folder, run_pipeline
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.stages.members import MembersSettings
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, make_plan
from nearcast.planning.stopping import Stopwatch
from nearcast.site.layout import SiteOptions
from nearcast.site.live_site import LiveSite, run_site
from nearcast.site.swarm import Swarm, SwarmResult, memberships

__all__ = ["METHODS", "Demo", "DemoSettings", "DemoTeller", "MethodRun", "run_demo", "step_count"]

METHODS = ("nearest", "reloc", "optimised")
_LEARNING = ("ingest", "members", "relations", "regions", "plan", "evaluate")
_STEPS_OF_A_SITE = 4
_OTHER_STEPS = 3


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demo shows."""

    city: City = field(default_factory=lambda: City(clients=400, servers=12, topics=40))
    methods: Sequence[str] = METHODS
    """The first are planned for comparison, the last one by the pipeline itself."""
    live: LiveSettings = field(default_factory=lambda: LiveSettings(rounds=1, rate_hz=60.0))
    time_limit_s: float = 3.0
    """For a method that searches."""
    seed: int = 1


class DemoTeller(Protocol):
    """Who wants to know how far the demo is."""

    def begin(self, step: str) -> None:
        """Take note that a step begins, and the one before has ended."""

    def count(self, done: int, total: int) -> None:
        """Take note of how far the step is; may come from another thread."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """A plan, and what became of it on the site."""

    method: str
    outcome: PlanOutcome
    plan_folder: Path
    result: SwarmResult
    startup_s: float
    """Until all servers were ready."""
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """Everything that the report shows."""

    city: Scenario
    learned: Scenario
    log_rows: int
    facts: LogFacts
    spark_start_s: float
    stages: Sequence[StageRecord]
    runs: Sequence[MethodRun]


def step_count(settings: DemoSettings) -> int:
    """Return how often `run_demo` begins a step."""
    return _OTHER_STEPS + len(_LEARNING) + _STEPS_OF_A_SITE * len(settings.methods)


def run_demo(settings: DemoSettings, folder: Path, teller: DemoTeller) -> Demo:
    """Run it all into a folder; an earlier demo there is replaced."""
    teller.begin("drawing a city and the log of its clients")
    city = generate_city(settings.city, settings.seed)
    write_scenario(city, folder / "city", overwrite=True)
    log_rows = write_log(city, folder / "log" / "city.parquet", settings.seed)
    write_sites(city, folder / "sites.csv")
    teller.begin("starting Spark")
    start = Stopwatch()
    with open_session(SparkSettings(ui=False)) as spark:
        spark_start_s = start.seconds()

        def tell(tasks: TaskProgress) -> None:
            teller.count(tasks.done, tasks.total)

        with watch_tasks(spark, tell):
            prepare_run_folder(folder / "run", overwrite=True)
            learned = run_pipeline(
                spark,
                RunSettings(
                    [folder / "log"],
                    members=MembersSettings(sites=folder / "sites.csv"),
                    request=_request(settings, settings.methods[-1]),
                ),
                folder / "run",
                lambda stage: teller.begin(f"Spark learns from {log_rows:,} rows: {stage}"),
            )
    teller.begin("planning by the other methods")
    plans = {name: (found, place) for name, found, place in _plans(settings, learned, folder)}
    runs = []
    for method, (outcome, plan_folder) in plans.items():
        watch = Stopwatch()
        with _site(settings, folder, method, plan_folder, teller) as live:
            startup_s = watch.seconds()
            result = _measure(live, settings.live, method, teller)
        runs.append(MethodRun(method, outcome, plan_folder, result, startup_s, watch.seconds()))
    facts = compare_with_truth(city, learned.scenario)
    return Demo(city, learned.scenario, log_rows, facts, spark_start_s, learned.stages, runs)


def _request(settings: DemoSettings, method: str) -> PlanRequest:
    return PlanRequest(
        Model.RATIO,
        method,
        seed=settings.seed,
        time_limit_s=settings.time_limit_s,
        bound_limit_s=settings.time_limit_s,
    )


def _plans(
    settings: DemoSettings, learned: RunResult, folder: Path
) -> Iterator[tuple[str, PlanOutcome, Path]]:
    for method in settings.methods[:-1]:
        outcome = make_plan(learned.scenario, _request(settings, method))
        place = folder / f"plan-{method}"
        write_plan(outcome.plan, outcome.report, learned.scenario, place, overwrite=True)
        yield method, outcome, place
    yield settings.methods[-1], learned.outcome, folder / "run" / "plan"


@contextmanager
def _site(
    settings: DemoSettings, folder: Path, method: str, plan_folder: Path, teller: DemoTeller
) -> Iterator[LiveSite]:
    """Run a site of its own for a plan: what an earlier demo left must not be in its spools."""
    servers = settings.city.servers + 2
    teller.begin(f"{method}: starting {servers} servers")
    place = folder / f"site-{method}"
    if (place / "site.json").exists():
        shutil.rmtree(place)
    ready = 0

    def on_ready(_server: str) -> None:
        nonlocal ready
        ready += 1
        teller.count(ready, servers)

    options = SiteOptions(plan=plan_folder, delay_factor=settings.live.delay_factor)
    with run_site(folder / "run" / "scenario", place, options, on_ready) as live:
        yield live


def _measure(
    live: LiveSite, settings: LiveSettings, method: str, teller: DemoTeller
) -> SwarmResult:
    """Have all clients connect, subscribe and publish; return what arrived."""
    teller.begin(f"{method}: connecting clients")
    credentials = live.enrol_clients()
    members = memberships(live.scenario)
    subscriptions = sum(one.subscribes for one in members)
    publications = settings.rounds * sum(one.publishes for one in members)
    body = b"x" * settings.payload_bytes

    async def act() -> SwarmResult:
        async with Swarm(credentials) as swarm:
            await swarm.connect(partial(_count, teller, len(credentials)))
            teller.begin(f"{method}: subscribing")
            await swarm.subscribe(members, partial(_count, teller, subscriptions))
            # a subscription is known to all brokers one trip through the mesh later
            longest_ms = live.scenario.settings.cloud_ms * 2 * settings.delay_factor
            await asyncio.sleep(0.5 + 2 * longest_ms / 1e3)
            teller.begin(f"{method}: publishing")
            return await swarm.publish(
                members,
                rounds=settings.rounds,
                rate_hz=settings.rate_hz,
                payload=lambda one, at: body,
                settle_s=10.0 + 4 * longest_ms / 1e3,
                seed=settings.seed,
                on_count=partial(_count, teller, publications),
            )

    import uvloop

    result = uvloop.run(act())
    if not result.arrivals:
        raise NearcastError(f"no notification arrived under the plan of {method}")
    return result


def _count(teller: DemoTeller, total: int, done: int) -> None:
    teller.count(done, total)

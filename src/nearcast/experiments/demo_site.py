"""The whole system on a generated city: its log, what Spark learns, plans, a site that runs them.

The plans come from what was learned from the log, not from the city itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.experiments.demo_live import (
    STEPS_OF_A_SITE,
    DemoTeller,
    MethodRun,
    PlannedBy,
    run_plan,
)
from nearcast.experiments.demo_log import LogFacts, compare_with_truth, write_log, write_sites
from nearcast.experiments.demo_loop import LOOP_STEPS
from nearcast.experiments.site_measure import LiveSettings
from nearcast.experiments.vehicles.run import Drive, DriveSettings, drive_simulated
from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.progress import TaskProgress, watch_tasks
from nearcast.pipeline.run import RunResult, RunSettings, run_pipeline
from nearcast.pipeline.run_folder import open_run_folder
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.stages.members import MembersSettings
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan
from nearcast.planning.stopping import Stopwatch

__all__ = ["METHODS", "Demo", "DemoSettings", "run_demo", "step_count"]

METHODS = ("nearest", "reloc", "optimised")
_LEARNING = ("ingest", "members", "relations", "regions", "plan", "evaluate")
_OTHER_STEPS = 3
_DRIVE_S = 45


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demo shows."""

    city: City = field(default_factory=lambda: City(clients=400, servers=12, topics=40))
    methods: Sequence[str] = METHODS
    """The first are planned for comparison, the last one by the pipeline itself."""
    live: LiveSettings = field(
        default_factory=lambda: LiveSettings(delay_factor=40.0, rounds=1, rate_hz=30.0)
    )
    time_limit_s: float = 3.0
    """For a method that searches."""
    seed: int = 1
    vehicles: int = 60
    """That drive past simulated servers; 0: none."""
    replans: bool = True
    """Whether clients of the last site move and it plans itself anew."""


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
    drive: Drive | None = None
    """Vehicles, their hand-overs and alerts."""


def step_count(settings: DemoSettings) -> int:
    """Return how often `run_demo` begins a step."""
    steps = _OTHER_STEPS + len(_LEARNING) + STEPS_OF_A_SITE * len(settings.methods)
    return steps + (settings.vehicles > 0) + LOOP_STEPS * settings.replans


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

        with watch_tasks(spark, tell), open_run_folder(folder / "run", overwrite=True) as run:
            learned = run_pipeline(
                spark,
                RunSettings(
                    [folder / "log"],
                    members=MembersSettings(sites=folder / "sites.csv"),
                    request=_request(settings, settings.methods[-1]),
                ),
                run,
                lambda stage: teller.begin(f"Spark learns from {log_rows:,} rows: {stage}"),
            )
        teller.begin("planning by the other methods")
        *others, last = _plans(settings, learned, folder)
        runs = [run_plan(plan, folder, settings.live, teller) for plan in others]
        replans = spark if settings.replans else None
        runs.append(run_plan(last, folder, settings.live, teller, replans))
    facts = compare_with_truth(city, learned.scenario)
    drive = _drive(settings, teller) if settings.vehicles else None
    return Demo(city, learned.scenario, log_rows, facts, spark_start_s, learned.stages, runs, drive)


def _drive(settings: DemoSettings, teller: DemoTeller) -> Drive:
    """Let vehicles drive, a few and a short while: `nearcast demo vehicles` shows many."""
    teller.begin("vehicles drive past simulated servers")
    params = SyntheticParams(settings.vehicles, blocks=10, seconds=_DRIVE_S, seed=settings.seed)
    drive = DriveSettings(edges=9, seconds=_DRIVE_S, seed=settings.seed)
    return drive_simulated(SyntheticMover(params), drive, teller.count)


def _request(settings: DemoSettings, method: str) -> PlanRequest:
    return PlanRequest(
        Model.RATIO,
        method,
        seed=settings.seed,
        time_limit_s=settings.time_limit_s,
        bound_limit_s=settings.time_limit_s,
    )


def _plans(settings: DemoSettings, learned: RunResult, folder: Path) -> list[PlannedBy]:
    found = []
    for method in settings.methods[:-1]:
        outcome = make_plan(learned.scenario, _request(settings, method))
        place = folder / f"plan-{method}"
        write_plan(outcome.plan, outcome.report, learned.scenario, place, overwrite=True)
        found.append(PlannedBy(method, outcome, place))
    return [*found, PlannedBy(settings.methods[-1], learned.outcome, folder / "run" / "plan")]

"""The whole chain: from raw logs to a plan and what it is worth. Read this to know the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.domain.imports.follows import FollowsParams
from nearcast.domain.imports.positions import read_degrees, read_km
from nearcast.domain.imports.sources import read_source
from nearcast.domain.json_files import write_json
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import read_plan, report_from_json
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.pipeline.manifest import Manifest, StageRecord
from nearcast.pipeline.progress import named_jobs
from nearcast.pipeline.run_folder import RUN_FILE, run_content
from nearcast.pipeline.stages.evaluate import Evaluation, evaluate_plan
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.ingest_follows import ingest_follows, members_from_follows
from nearcast.pipeline.stages.log_files import LogPath, find_files, read_layout
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.stages.plan import PLAN_FOLDER, RELATING_METHODS, plan_scenario
from nearcast.pipeline.stages.plausible import Plausibility
from nearcast.pipeline.stages.regions import divide
from nearcast.pipeline.stages.relations import RelationSettings, relate, related_before
from nearcast.pipeline.stages.scenario import SCENARIO_FOLDER, build_scenario, save_scenario
from nearcast.pipeline.stages.text_files import check_text_file
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "RunResult",
    "RunSettings",
    "check_inputs",
    "made_of",
    "run_pipeline",
]

_KEPT_STAGES = ("ingest", "members", "relations", "regions", "plan")
"""Stages that an interrupted run does not repeat; from relations and regions on only if it has a
plan, which is all that comes of them."""
_TOLD_SETTINGS = ("spark.driver.memory", "spark.executor.memory", "spark.sql.shuffle.partitions")
_SERVERS_PER_REGION = 4
"""As in the paper of 2021, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What to do with the logs."""

    logs: Sequence[LogPath]
    follows: FollowsParams | None = None
    """The log is a list of follower and followee, made topics as these say; None: publications."""
    plausible: Plausibility = field(default_factory=Plausibility)
    """Beyond these limits a row is put aside."""
    members: MembersSettings = field(default_factory=MembersSettings)
    relations: RelationSettings = field(default_factory=RelationSettings)
    request: PlanRequest = field(default_factory=lambda: PlanRequest(Model.RATIO))


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """What a run leaves, beside its folder."""

    scenario: Scenario
    outcome: PlanOutcome
    evaluation: Evaluation
    stages: list[StageRecord]


def check_inputs(settings: RunSettings) -> None:
    """Raise an error if the logs or the sites cannot be used, as far as their beginnings tell.

    Raises
    ------
    ScenarioError
        Naming what is missing, empty or not of the form it should have.
    """
    sites = None if settings.members.sites is None else read_source(settings.members.sites)
    if settings.follows is not None:
        for file in find_files(settings.logs):
            check_text_file(file)
        return
    layout = read_layout(settings.logs)
    if sites is not None:
        (read_km if layout.in_km else read_degrees)(sites)


def made_of(settings: RunSettings) -> dict[str, Any]:
    """Return what a run is made of: one that was interrupted goes on only with the same."""
    sites = settings.members.sites
    inputs = [*find_files(settings.logs), *([] if sites is None else [sites])]
    return run_content(
        inputs, replace(settings, request=replace(settings.request, on_progress=None))
    )


def run_pipeline(
    spark: SparkSession,
    settings: RunSettings,
    folder: Path,
    on_stage: Callable[[str], None] | None = None,
    on_plan: Callable[[str, str], None] | None = None,
) -> RunResult:
    """Run all stages into a folder of `open_run_folder`; what an interrupted run did is kept."""
    workspace = Workspace(spark, folder, on_plan)
    manifest = Manifest(folder)
    manifest.take_up(_KEPT_STAGES)
    request = settings.request

    @contextmanager
    def stage(name: str) -> Iterator[StageRecord]:
        if on_stage is not None:
            on_stage(name)
        with named_jobs(spark, name), manifest.stage(name) as record:
            yield record

    if not manifest.find("ingest"):
        with stage("ingest") as record:
            if settings.follows is None:
                ingest_publications(workspace, settings.logs, record, settings.plausible)
            else:
                ingest_follows(workspace, settings.logs[0], record)
    if manifest.find("members"):
        scenario = _scenario_of(workspace, settings)
    else:
        with stage("members") as record:
            scenario = _members(workspace, settings, record)
    if manifest.find("plan"):
        plan, told = read_plan(folder / PLAN_FOLDER, scenario)
        report = report_from_json(told)
    else:
        manifest.take_up(_KEPT_STAGES[:3])
        outcome = _plan(workspace, scenario, settings, manifest, stage)
        plan, report = outcome.plan, outcome.report
    with stage("evaluate") as record:
        evaluation = evaluate_plan(
            workspace, scenario, plan, request.model, request.objective, record
        )
    outcome = PlanOutcome(plan, report, evaluation.assessment)
    _write_summary(spark, folder, settings, outcome)
    return RunResult(scenario, outcome, evaluation, manifest.records)


def _plan(
    workspace: Workspace,
    scenario: Scenario,
    settings: RunSettings,
    manifest: Manifest,
    stage: Callable[[str], AbstractContextManager[StageRecord]],
) -> PlanOutcome:
    """Run the stages from relations to plan."""
    request = settings.request
    if done := manifest.find("relations"):
        relations = related_before(workspace, len(scenario.clients), done)
    else:
        with stage("relations") as record:
            relations = relate(workspace, scenario, settings.relations, record)
    with stage("regions") as record:
        count = request.regions or max(len(scenario.servers) // _SERVERS_PER_REGION, 1)
        regions = divide(workspace, scenario, count, request.seed, record)
    with stage("plan") as record:
        known = regions if request.regions is not None else None
        relates = request.method in RELATING_METHODS
        with relations.mapped() if relates else nullcontext() as related:
            outcome = plan_scenario(workspace, scenario, request, record, related, known)
        chosen = outcome.report.search.get("regions", regions.count)
        if chosen != regions.count:
            # RELOC chose their number by the delay: the tables show what it used.
            divide(workspace, scenario, chosen, request.seed, StageRecord("regions"))
    return outcome


def _members(workspace: Workspace, settings: RunSettings, record: StageRecord) -> Scenario:
    seed = settings.request.seed
    if settings.follows is not None:
        file = str(settings.logs[0])
        return members_from_follows(workspace, settings.follows, seed, record, file)
    find_members(workspace, settings.members, record)
    scenario = _scenario_of(workspace, settings)
    save_scenario(workspace, scenario, record)
    return scenario


def _scenario_of(workspace: Workspace, settings: RunSettings) -> Scenario:
    """Return the scenario of the members that are found."""
    if settings.follows is not None:
        return read_scenario(workspace.folder / SCENARIO_FOLDER)
    name, seed = _name(settings.logs), settings.request.seed
    return build_scenario(workspace, settings.members, name, seed)


def _name(logs: Sequence[LogPath]) -> str:
    return logs[0].name.split(".")[0]


def _write_summary(
    spark: SparkSession, folder: Path, settings: RunSettings, outcome: PlanOutcome
) -> None:
    report = outcome.report
    results = {
        "spark": {
            "version": spark.version,
            "master": spark.sparkContext.master,
            "parallelism": spark.sparkContext.defaultParallelism,
            # By name: others may be secrets of a file system.
            **{key: spark.conf.get(key, None) for key in _TOLD_SETTINGS},
        },
        "model": report.model,
        "method": report.method,
        "cost_ms": report.cost,
        "bound_ms": report.bound,
        "scenario_fingerprint": report.scenario_fingerprint,
    }
    write_json(folder / RUN_FILE, {**made_of(settings), **results})

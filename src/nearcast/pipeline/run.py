"""The whole chain: from raw logs to a plan and what it is worth. Read this to know the stages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.domain.imports.follows import FollowsParams
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.errors import OutputError
from nearcast.pipeline.manifest import MANIFEST_FILE, Manifest, StageRecord
from nearcast.pipeline.stages.evaluate import Evaluation, evaluate_plan
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.ingest_follows import ingest_follows, members_from_follows
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.stages.plan import RELATING_METHODS, plan_scenario
from nearcast.pipeline.stages.regions import divide
from nearcast.pipeline.stages.relations import RelationSettings, relate
from nearcast.pipeline.stages.scenario import build_scenario
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "RUN_FILE",
    "RunResult",
    "RunSettings",
    "check_run_folder",
    "prepare_run_folder",
    "run_pipeline",
]

RUN_FILE = "run.json"
_SERVERS_PER_REGION = 4
"""As in the paper of 2021, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What to do with the logs."""

    logs: Sequence[Path]
    follows: FollowsParams | None = None
    """The log is a list of follower and followee, made topics as these say; None: publications."""
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


def check_run_folder(folder: Path, overwrite: bool) -> None:
    """Raise an OutputError if something is in the way of a run; nothing is changed."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not (folder / RUN_FILE).is_file():
            raise OutputError(f"{folder}: exists already and is not an earlier run")
    except OSError as reason:
        raise OutputError(f"{folder}: {reason.strerror}") from reason
    if not overwrite:
        raise OutputError(f"{folder}: holds an earlier run; give --overwrite to replace it")


def prepare_run_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder of a run; an earlier run there is replaced if `overwrite` says so.

    Raises
    ------
    OutputError
        When something is in the way, or the folder cannot be written.
    """
    check_run_folder(folder, overwrite)
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / RUN_FILE).write_text("{}\n")
    except OSError as reason:
        raise OutputError(f"{folder}: cannot be written: {reason.strerror}") from reason


def run_pipeline(
    spark: SparkSession,
    settings: RunSettings,
    folder: Path,
    on_stage: Callable[[str], None] | None = None,
    on_plan: Callable[[str, str], None] | None = None,
) -> RunResult:
    """Run all stages into a prepared folder; what was finished before an error stays there."""
    workspace = Workspace(spark, folder, on_plan)
    manifest = Manifest(folder)
    (folder / MANIFEST_FILE).unlink(missing_ok=True)
    request = settings.request

    @contextmanager
    def stage(name: str) -> Iterator[StageRecord]:
        if on_stage is not None:
            on_stage(name)
        with manifest.stage(name) as record:
            yield record

    try:
        with stage("ingest") as record:
            if settings.follows is None:
                ingest_publications(workspace, settings.logs, record)
            else:
                ingest_follows(workspace, settings.logs[0], record)
    except BaseException:
        # Nothing is finished yet: leave no folder that looks like a run.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with stage("members") as record:
        if settings.follows is None:
            find_members(workspace, settings.members, record)
            scenario = build_scenario(
                workspace, settings.members, _name(settings.logs), request.seed, record
            )
        else:
            scenario = members_from_follows(
                workspace, settings.follows, request.seed, record, str(settings.logs[0])
            )
    with stage("relations") as record:
        relations = relate(workspace, scenario, settings.relations, record)
    with stage("regions") as record:
        count = request.regions or max(len(scenario.servers) // _SERVERS_PER_REGION, 1)
        regions = divide(workspace, scenario, count, request.seed, record)
    with stage("plan") as record:
        known = regions if request.regions is not None else None
        related = relations.read() if request.method in RELATING_METHODS else None
        outcome = plan_scenario(workspace, scenario, request, record, related, known)
        chosen = outcome.report.search.get("regions", regions.count)
        if chosen != regions.count:
            # RELOC chose their number by the delay: the tables show what it used.
            divide(workspace, scenario, chosen, request.seed, StageRecord("regions"))
    with stage("evaluate") as record:
        evaluation = evaluate_plan(
            workspace, scenario, outcome.plan, request.model, request.objective, record
        )
    _write_summary(folder, settings, outcome)
    return RunResult(scenario, outcome, evaluation, manifest.records)


def _name(logs: Sequence[Path]) -> str:
    return logs[0].name.split(".")[0]


def _write_summary(folder: Path, settings: RunSettings, outcome: PlanOutcome) -> None:
    report = outcome.report
    summary: dict[str, Any] = {
        "nearcast": version("nearcast"),
        "logs": [str(path) for path in settings.logs],
        "model": report.model.value,
        "method": report.method,
        "cost_ms": report.cost,
        "bound_ms": report.bound,
        "scenario_fingerprint": report.scenario_fingerprint,
    }
    (folder / RUN_FILE).write_text(json.dumps(summary, indent=2) + "\n")

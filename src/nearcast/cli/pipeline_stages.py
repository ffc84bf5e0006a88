"""``nearcast pipeline relations|plan|evaluate``: single stages on a scenario."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, print_warnings
from nearcast.cli.local_path import LocalPath
from nearcast.cli.options import (
    bound_limit_option,
    format_option,
    iterations_option,
    model_option,
    objective_option,
    out_option,
    overwrite_option,
    regions_option,
    seed_option,
    time_limit_option,
)
from nearcast.cli.pipeline_output import (
    evaluation_to_json,
    print_evaluation,
    print_plan,
    print_stages,
)
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session, stage_progress
from nearcast.domain.json_files import write_json
from nearcast.domain.plan import Model, Objective
from nearcast.domain.tables import TableFormat

if TYPE_CHECKING:
    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["evaluate", "plan", "relations"]

folder_argument = click.argument("folder", type=LocalPath())


@contextmanager
def _stage(
    name: str, folder: Path, options: SparkOptions
) -> Iterator[tuple[Workspace, StageRecord]]:
    """Give a workspace and the record of one stage, with a session and a bar around it."""
    from nearcast.pipeline.manifest import Manifest
    from nearcast.pipeline.progress import named_jobs
    from nearcast.pipeline.workspace import Workspace

    manifest = Manifest(folder)
    manifest.take_up(())
    with spark_session(options) as session, stage_progress(session) as begin:
        begin(name)
        with named_jobs(session, name), manifest.stage(name) as record:
            yield Workspace(session, folder, options.print_plan()), record


def _files(folder: Path) -> list[Path]:
    """Return what is in a folder of a scenario or a plan."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@click.command()
@folder_argument
@click.option("--related", type=int, default=100, show_default=True, help="M' of each client.")
@click.option(
    "--relation",
    "kind",
    type=click.Choice(["counts", "factorised", "als"]),
    help="Shared topics, their factorised score, or ALS.  [default: by size]",
)
@out_option
@overwrite_option
@spark_options
@json_option
def relations(
    folder: Path,
    related: int,
    kind: str | None,
    out: Path,
    overwrite: bool,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Find the most related clients of each client of the scenario in FOLDER.

    --out gets the table relations: client_index, rank, other_index, score.
    """
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.pipeline.run_folder import open_run_folder, run_content
    from nearcast.pipeline.stages.relations import RelationSettings, relate
    from nearcast.planning.relations import RelationKind

    settings = RelationSettings(most=related, kind=None if kind is None else RelationKind(kind))
    scenario = read_scenario(folder)
    with (
        open_run_folder(out, overwrite, run_content(_files(folder), settings)) as unfinished,
        _stage("relations", unfinished, spark_with) as (workspace, record),
    ):
        relate(workspace, scenario, settings, record)
    if as_json:
        print_json({"relations": str(out / "relations"), "stages": [asdict(record)]})
    else:
        print_stages([record], title=f"relations -> {out}")


@click.command()
@folder_argument
@model_option
@click.option("--method", default="optimised", show_default=True, help="As in `nearcast plan`.")
@objective_option
@regions_option
@seed_option
@time_limit_option
@iterations_option
@bound_limit_option
@out_option
@format_option
@overwrite_option
@spark_options
@json_option
def plan(
    folder: Path,
    model: str | None,
    method: str,
    objective: str | None,
    regions: int | None,
    seed: int,
    time_limit_s: float | None,
    iterations: int | None,
    bound_limit_s: float | None,
    out: Path,
    table_format: TableFormat,
    overwrite: bool,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Plan the scenario in FOLDER: reloc and optimised region by region, in parallel.

    RELOC gives exactly the plan of `nearcast plan`. From some 50,000 clients on, where topics keep
    to their neighbourhood, optimised searches parts of the servers at once and then repairs the
    seams between them; else it searches the whole in one task.
    """
    from nearcast.domain.output_folder import check_output_folder
    from nearcast.domain.plan_files import report_to_json, write_plan
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.pipeline.manifest import MANIFEST_FILE
    from nearcast.pipeline.run_folder import RUN_FILE, run_content
    from nearcast.pipeline.stages.plan import plan_scenario
    from nearcast.planning.registry import find_method
    from nearcast.planning.request import PlanRequest

    chosen = Model(model or Model.RATIO)
    find_method(method, chosen)
    check_output_folder(out, overwrite)
    scenario = read_scenario(folder)
    request = PlanRequest(
        model=chosen,
        method=method,
        objective=Objective(objective or Objective.D1),
        regions=regions,
        seed=seed,
        time_limit_s=time_limit_s,
        iterations=iterations,
        bound_limit_s=bound_limit_s,
    )
    made_of = run_content(_files(folder), request)
    with tempfile.TemporaryDirectory(prefix="nearcast-plan-") as tables:
        with _stage("plan", Path(tables), spark_with) as (workspace, record):
            outcome = plan_scenario(workspace, scenario, request, record)
        report, form = outcome.report, table_format
        write_plan(outcome.plan, report, scenario, out, table_format=form, overwrite=overwrite)
        shutil.copy(Path(tables, MANIFEST_FILE), out)
        write_json(out / RUN_FILE, made_of)
    print_warnings(report.warnings)
    if as_json:
        print_json(report_to_json(report))
    else:
        print_plan(report, title=f"{report.method} under the {report.model} model -> {out}")


@click.command()
@folder_argument
@click.argument("plan_folder", type=LocalPath())
@model_option
@objective_option
@click.option("--out", type=LocalPath(), help="Keep the tables in this folder.")
@overwrite_option
@spark_options
@json_option
def evaluate(
    folder: Path,
    plan_folder: Path,
    model: str | None,
    objective: str | None,
    out: Path | None,
    overwrite: bool,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Compute the delays of the plan in PLAN_FOLDER over all publisher/subscriber pairs.

    The metrics are those of `nearcast evaluate`; beside them come percentiles, and with --out the
    tables topic_delays, server_use, delay_percentiles and delay_histogram.
    """
    from nearcast.domain.plan_files import read_plan
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.pipeline.run_folder import open_run_folder, run_content
    from nearcast.pipeline.stages.evaluate import evaluate_plan

    scenario = read_scenario(folder)
    made, said = read_plan(plan_folder, scenario)
    chosen = Model(model or said.get("model") or Model.RATIO)
    wanted = Objective(objective or said.get("objective") or Objective.D1)
    made_of = run_content(
        [*_files(folder), *_files(plan_folder)], {"model": chosen, "objective": wanted}
    )
    with (
        tempfile.TemporaryDirectory(prefix="nearcast-evaluate-") as scratch,
        open_run_folder(out or Path(scratch, "run"), overwrite, made_of) as run,
        _stage("evaluate", run, spark_with) as (workspace, record),
    ):
        evaluation = evaluate_plan(workspace, scenario, made, chosen, wanted, record)
    if as_json:
        print_json(evaluation_to_json(evaluation))
    else:
        print_evaluation(evaluation)

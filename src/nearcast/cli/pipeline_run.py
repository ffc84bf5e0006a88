"""``nearcast pipeline run``: the whole chain from raw logs to a plan."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, print_warnings
from nearcast.cli.local_path import AnyPath, LocalPath
from nearcast.cli.options import (
    bound_limit_option,
    iterations_option,
    model_option,
    objective_option,
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
from nearcast.cli.plausibility_options import plausibility_options
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session, stage_progress
from nearcast.domain.plan import Model, Objective

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.domain.imports.follows import FollowsParams
    from nearcast.pipeline.hadoop_paths import HadoopPath
    from nearcast.pipeline.stages.plausible import Plausibility, StrayLimits

__all__ = ["run"]


@click.command()
@click.argument("logs", nargs=-1, required=True, type=AnyPath())
@click.option(
    "--format",
    "log_format",
    type=click.Choice(["publications", "follows"]),
    default="publications",
    show_default=True,
    help="publications: JSON lines, CSV or Parquet with topic, client, time, position, size. "
    "follows: one edge list of follower and followee.",
)
@click.option(
    "--sites",
    type=AnyPath(),
    help="CSV of server sites (latitude, longitude or x_km, y_km).  [default: a grid]",
)
@click.option("--servers-per-side", type=int, default=4, show_default=True, help="Of the grid.")
@click.option("--since", help="Leave out what is older: seconds or ISO 8601.")
@click.option("--until", help="Leave out what is younger: seconds or ISO 8601.")
@plausibility_options
@click.option("--topics", type=int, help="follows: how many topics to take.  [default: all]")
@click.option("--related", "related", type=int, default=100, show_default=True, help="M'.")
@click.option(
    "--relation",
    "relation_kind",
    type=click.Choice(["counts", "factorised", "als"]),
    help="Shared topics, their factorised score, or ALS.  [default: by size]",
)
@model_option
@click.option(
    "--method",
    default="optimised",
    show_default=True,
    help="optimised and reloc run region by region in parallel; others as one task.",
)
@objective_option
@regions_option
@seed_option
@time_limit_option
@iterations_option
@bound_limit_option
@click.option("--out", type=AnyPath(), required=True, help="Folder to write; made new.")
@overwrite_option
@click.option(
    "--work",
    type=LocalPath(),
    help="Where a run for another file system is made before it is brought there; on a cluster a "
    "folder that all machines share.  [default: ~/.cache/nearcast/runs]",
)
@spark_options
@json_option
def run(
    logs: tuple[Path | HadoopPath, ...],
    log_format: str,
    sites: Path | HadoopPath | None,
    servers_per_side: int,
    since: str | None,
    until: str | None,
    plausible: Plausibility,
    strays: StrayLimits,
    topics: int | None,
    related: int,
    relation_kind: str | None,
    model: str | None,
    method: str,
    objective: str | None,
    regions: int | None,
    seed: int,
    time_limit_s: float | None,
    iterations: int | None,
    bound_limit_s: float | None,
    out: Path | HadoopPath,
    overwrite: bool,
    work: Path | None,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Turn raw LOGS into a plan: ingest, members, relations, regions, plan, evaluate.

    --out gets the tables of all stages, the scenario (OUT/scenario) and the plan (OUT/plan) in
    the formats of `nearcast plan`, and manifest.jsonl with rows, seconds and memory of each stage.
    Rows that cannot be used are in OUT/quarantine with the reason; none is dropped silently.
    LOGS, --sites and --out may be on any file system that Spark's Hadoop knows: hdfs://, s3a://
    (with the jars and settings that these need), file://.

    \b
      nearcast pipeline run log.jsonl --sites sites.csv --out run
      nearcast pipeline run logs/*.parquet --since 2026-11-01 --method reloc --out run
      nearcast pipeline run soc-Epinions1.txt.gz --format follows --topics 64 --out run
    """
    from nearcast.domain.imports.publications import PublicationsParams
    from nearcast.domain.plan_files import report_to_json
    from nearcast.pipeline.hadoop_paths import HadoopPath
    from nearcast.pipeline.remote_run import (
        check_remote_folder,
        default_work_folder,
        fetch_file,
        open_remote_folder,
    )
    from nearcast.pipeline.run import (
        RunSettings,
        check_inputs,
        made_of,
        run_pipeline,
    )
    from nearcast.pipeline.run_folder import check_run_folder, open_run_folder
    from nearcast.pipeline.stages.members import MembersSettings
    from nearcast.pipeline.stages.relations import RelationSettings
    from nearcast.planning.registry import find_method
    from nearcast.planning.relations import RelationKind
    from nearcast.planning.request import PlanRequest

    chosen = Model(model or Model.RATIO)
    find_method(method, chosen)
    if log_format == "follows" and len(logs) > 1:
        raise click.BadParameter("a list of follows is one file", param_hint="LOGS")
    settings = RunSettings(
        logs=logs,
        follows=_follows(log_format, topics, servers_per_side),
        plausible=plausible,
        members=MembersSettings(
            since=since,
            until=until,
            sites=None if isinstance(sites, HadoopPath) else sites,
            strays=strays,
            parameters=PublicationsParams(servers_per_side=servers_per_side),
        ),
        relations=RelationSettings(
            most=related, kind=None if relation_kind is None else RelationKind(relation_kind)
        ),
        request=PlanRequest(
            model=chosen,
            method=method,
            objective=Objective(objective or Objective.D1),
            regions=regions,
            related_clients=related,
            seed=seed,
            time_limit_s=time_limit_s,
            iterations=iterations,
            bound_limit_s=bound_limit_s,
        ),
    )
    with ExitStack() as open_now:
        session: SparkSession | None = None
        if any(isinstance(path, HadoopPath) for path in (*logs, sites, out)):
            # Hadoop's file systems live in Spark's JVM: only then can they be looked at.
            session = open_now.enter_context(spark_session(spark_with))
            work = _work_folder(work, out, session)
        if isinstance(sites, HadoopPath):
            local = fetch_file(sites, work or default_work_folder())
            settings = replace(settings, members=replace(settings.members, sites=local))
        if isinstance(out, HadoopPath):
            check_remote_folder(out, overwrite)
            check_inputs(settings)
            run_folder = open_remote_folder(
                out, overwrite, made_of(settings), work or default_work_folder()
            )
        else:
            check_run_folder(out, overwrite)
            check_inputs(settings)
            run_folder = open_run_folder(out, overwrite, made_of(settings))
        unfinished = open_now.enter_context(run_folder)
        session = session or open_now.enter_context(spark_session(spark_with))
        begin = open_now.enter_context(stage_progress(session))
        result = run_pipeline(session, settings, unfinished, begin, spark_with.print_plan())
    report = result.outcome.report
    print_warnings(report.warnings)
    if as_json:
        print_json(
            {
                "run": str(out),
                "stages": [asdict(record) for record in result.stages],
                "plan": report_to_json(report),
                "evaluation": evaluation_to_json(result.evaluation),
            }
        )
        return
    print_stages(result.stages, title=f"stages -> {out}")
    print_plan(report, title=f"{report.method} under the {report.model} model -> {out / 'plan'}")
    print_evaluation(result.evaluation)


def _work_folder(work: Path | None, out: Path | HadoopPath, session: SparkSession) -> Path | None:
    """Return where to make a run; on a cluster the user must say what all machines share."""
    from nearcast.pipeline.session import is_embedded

    if (
        work is None
        and not isinstance(out, Path)
        and not is_embedded(session.sparkContext.master or "")
    ):
        raise click.UsageError(
            f"{out}: on a cluster give --work, a folder that all machines share: there the run is "
            "made before it is brought to another file system"
        )
    return work


def _follows(log_format: str, topics: int | None, servers_per_side: int) -> FollowsParams | None:
    if log_format != "follows":
        return None
    from nearcast.domain.imports.follows import FollowsParams

    return FollowsParams(topics=topics, servers_per_side=servers_per_side)

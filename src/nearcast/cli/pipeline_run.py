"""``nearcast pipeline run``: the whole chain from raw logs to a plan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, print_warnings
from nearcast.cli.options import (
    bound_limit_option,
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
from nearcast.domain.plan import Model, Objective

if TYPE_CHECKING:
    from nearcast.domain.imports.follows import FollowsParams

__all__ = ["run"]


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
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
    type=click.Path(path_type=Path),
    help="CSV of server sites (latitude, longitude or x_km, y_km).  [default: a grid]",
)
@click.option("--servers-per-side", type=int, default=4, show_default=True, help="Of the grid.")
@click.option("--since", help="Leave out what is older: seconds or ISO 8601.")
@click.option("--until", help="Leave out what is younger: seconds or ISO 8601.")
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
@out_option
@overwrite_option
@spark_options
@json_option
def run(
    logs: tuple[Path, ...],
    log_format: str,
    sites: Path | None,
    servers_per_side: int,
    since: str | None,
    until: str | None,
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
    out: Path,
    overwrite: bool,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Turn raw LOGS into a plan: ingest, members, relations, regions, plan, evaluate.

    --out gets the tables of all stages, the scenario (OUT/scenario) and the plan (OUT/plan) in
    the formats of `nearcast plan`, and manifest.jsonl with rows, seconds and memory of each stage.
    Rows that cannot be used are in OUT/quarantine with the reason; none is dropped silently.

    \b
      nearcast pipeline run log.jsonl --sites sites.csv --out run
      nearcast pipeline run logs/*.parquet --since 2026-11-01 --method reloc --out run
      nearcast pipeline run soc-Epinions1.txt.gz --format follows --topics 64 --out run
    """
    from nearcast.domain.imports.publications import PublicationsParams
    from nearcast.domain.plan_files import report_to_json
    from nearcast.pipeline.run import (
        RunSettings,
        check_run_folder,
        prepare_run_folder,
        run_pipeline,
    )
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
        members=MembersSettings(
            since=since,
            until=until,
            sites=sites,
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
    check_run_folder(out, overwrite)
    with (
        spark_session(spark_with) as session,
        stage_progress(session, not as_json) as begin,
    ):
        prepare_run_folder(out, overwrite)
        result = run_pipeline(session, settings, out, begin, spark_with.print_plan())
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


def _follows(log_format: str, topics: int | None, servers_per_side: int) -> FollowsParams | None:
    if log_format != "follows":
        return None
    from nearcast.domain.imports.follows import FollowsParams

    return FollowsParams(topics=topics, servers_per_side=servers_per_side)

"""``nearcast bench relations`` and ``nearcast bench pipeline``: the data work on Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from nearcast.cli.bench_output import finish, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session

__all__ = ["pipeline", "relations"]


@click.command()
@click.option("--memberships", type=int, default=2_000_000, show_default=True)
@click.option("--topics", type=int, default=200_000, show_default=True)
@click.option("--clients", type=int, default=300_000, show_default=True)
@click.option("--related", type=int, default=100, show_default=True, help="Kept of each client.")
@click.option("--attempts", type=int, default=2, show_default=True, help="The first one is cold.")
@out_option
@spark_options
@json_option
def relations(
    memberships: int,
    topics: int,
    clients: int,
    related: int,
    attempts: int,
    out: Path | None,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Measure the relations stage against a DataFrame self-join and single-process scipy."""
    from nearcast.experiments import relations_speed

    prepare(out)
    size = relations_speed.RelationSize(memberships, topics, clients, related)
    steps = attempts * len(relations_speed.WAYS)
    with (
        tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder,
        spark_session(spark_with) as session,
        step_progress(steps, enabled=not as_json) as begin,
    ):
        points = kept(
            relations_speed.run(session, Path(folder), size, attempts=attempts, begin=begin)
        )
    finish("relations", points, relations_speed.summary(points), out, as_json)


_SIZES = click.Choice(["10000", "100000", "1000000"])


@click.command()
@click.option(
    "--least-clients",
    type=_SIZES,
    default="10000",
    show_default=True,
    help="Smallest size of the even log; there are ten memberships a client.",
)
@click.option(
    "--most-clients",
    type=_SIZES,
    default="1000000",
    show_default=True,
    help="Largest size of the even log.",
)
@click.option(
    "--log",
    type=click.Choice(["even", "skewed", "both"]),
    default="both",
    show_default=True,
    help="even: clean, topics of ten. skewed: topics of up to 3,000, one row in 200 is dirty.",
)
@click.option("--method", default="optimised", show_default=True, help="To plan by.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def pipeline(
    least_clients: str,
    most_clients: str,
    log: str,
    method: str,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure `pipeline run` from a raw log to a plan, stage by stage, up to a million clients."""
    from nearcast.experiments import pipeline_scale

    prepare(out)
    cases = [pipeline_scale.SKEWED] if log != "even" else []
    if log != "skewed":
        least, most = int(least_clients), int(most_clients)
        sizes = [size for size in pipeline_scale.EVEN_SIZES if least <= size <= most]
        if not sizes:
            raise click.UsageError("--least-clients is more than --most-clients")
        cases += [pipeline_scale.even_case(size) for size in sizes]
    with step_progress(2 * len(cases), enabled=not as_json) as begin:
        points = kept(pipeline_scale.run(cases, seed=seed, method=method, begin=begin))
    finish("pipeline", points, pipeline_scale.summary(points), out, as_json)

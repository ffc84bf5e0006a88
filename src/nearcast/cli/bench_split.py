"""``nearcast bench split``: `optimised` over executors against memory at equal CPU time."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session

__all__ = ["split"]


@click.command()
@click.option(
    "--setting",
    type=click.Choice(["reloc2021", "city", "both"]),
    default="both",
    show_default=True,
)
@click.option("--clients", type=click.IntRange(min=20), default=100_000, show_default=True)
@click.option("--servers", type=click.IntRange(min=2), default=324, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--sweeps",
    type=click.IntRange(min=1),
    help="How often the search looks at each client.  [default: as a plan without limits]",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for the search on executors, instead of sweeps.",
)
@click.option(
    "--parts",
    type=click.IntRange(min=2),
    help="Split into this many parts, even where it does not pay.  [default: as the stage chooses]",
)
@out_option
@spark_options
@json_option
def split(
    setting: str,
    clients: int,
    servers: int,
    seeds: int,
    sweeps: int | None,
    time_limit_s: float | None,
    parts: int | None,
    out: Path | None,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Measure `optimised` split over executors against memory at equal CPU time."""
    if sweeps is not None and time_limit_s is not None:
        raise click.UsageError("give --sweeps or --time-limit, not both")
    from nearcast.experiments import split_cost

    prepare(out)
    names = split_cost.SETTINGS if setting == "both" else (setting,)
    scenarios = {name: split_cost.make_scenario(name, clients, servers) for name in names}
    length = split_cost.Length(sweeps, time_limit_s)
    with (
        spark_session(spark_with) as session,
        step_progress(seeds * len(names), enabled=not as_json) as begin,
    ):
        points = kept(
            split_cost.run(session, scenarios, range(seeds), length, parts=parts, begin=begin)
        )
    finish("split", points, split_cost.summary(points), out, as_json)

"""``nearcast bench areas``: points in areas and areas at a point, beside other indexes."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress

__all__ = ["areas"]


@click.command()
@click.option("--points", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--subscriptions", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--queries", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option(
    "--radius",
    "radius_km",
    type=click.FloatRange(min=0.001, max=5),
    default=0.25,
    show_default=True,
    help="Of the polygons, in km.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def areas(
    points: int,
    subscriptions: int,
    queries: int,
    radius_km: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure areas of interest beside shapely's STRtree, rtree, h3 and a scan.

    Points are all over 20 km by 20 km, areas are polygons of 8 corners. CPU time of one core:
    `query` finds the points in an area, `update` takes new positions of all points, `match` finds
    the subscribed areas at a point. All must find what the scan finds.
    """
    from nearcast.experiments.area_rivals import METHODS, missing
    from nearcast.experiments.area_speed import AreaCase, run

    prepare(out)
    chosen = [name for name in METHODS if not missing(name)]
    for name in METHODS:
        if name not in chosen:
            libraries = " and ".join(missing(name))
            click.echo(f"{name} is left out: install {libraries} (nearcast[areas])", err=True)
    case = AreaCase(points, subscriptions, queries, radius_km, seed)
    with step_progress(len(chosen), enabled=not as_json) as begin:
        measured = kept(run(case, chosen, begin))
    finish_points("areas", measured, out, as_json)

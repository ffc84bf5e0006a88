"""``nearcast bench sdk``: what a notification costs the program that receives it."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare, whole_numbers
from nearcast.cli.console import json_option, step_progress

__all__ = ["sdk"]


@click.command()
@click.option(
    "--rates", default="100,1000,5000", show_default=True, help="Notifications per second."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    help="For each rate.",
)
@out_option
@json_option
def sdk(rates: str, seconds: float, out: Path | None, as_json: bool) -> None:
    """Measure the CPU time of a program with one client, per notification that it receives."""
    from nearcast.experiments.latency import sdk_cost
    from nearcast.experiments.latency.verdicts import Verdict

    prepare(out)
    rates_hz = whole_numbers("--rates", rates)
    with step_progress(len(rates_hz) + 1, enabled=not as_json) as begin:
        points = kept(sdk_cost.run(rates_hz, seconds=seconds, begin=begin))
    finish_points("sdk", points, out, as_json)
    for point in points:
        if point.rate in sdk_cost.GOAL_US and not as_json:
            goal = f"{point.rate:,}/s: CPU us of the program per notification"
            limit_us = sdk_cost.GOAL_US[point.rate]
            click.echo(str(Verdict(goal, point.cpu_us_per_notification, limit_us)))

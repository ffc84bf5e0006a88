"""``nearcast bench fanout``: one message to many subscribers."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare, whole_numbers
from nearcast.cli.console import json_option, step_progress
from nearcast.errors import ConfigError

__all__ = ["fanout"]


@click.command()
@click.option("--subscribers", default="1,10,100,1000,10000", show_default=True)
@click.option(
    "--ways",
    default="unicast,group",
    show_default=True,
    help="How they are told: each in its session, or by multicast where there are 16 or more.",
)
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Sent one after the other, for each number of subscribers.",
)
@out_option
@json_option
def fanout(subscribers: str, ways: str, messages: int, out: Path | None, as_json: bool) -> None:
    """Measure one message to many subscribers of one edge server: the first, the last, CPU time."""
    from nearcast.experiments.latency import fanout as experiment
    from nearcast.experiments.latency.verdicts import Verdict

    prepare(out)
    counts = whole_numbers("--subscribers", subscribers)
    known = [one for one in experiment.WAYS if one in ways.split(",")]
    if sorted(known) != sorted(ways.split(",")):
        raise ConfigError(f"--ways: {ways!r} is no list of {', '.join(experiment.WAYS)}")
    with step_progress(experiment.steps(counts, known), enabled=not as_json) as begin:
        points = kept(experiment.run(counts, messages=messages, ways=known, begin=begin))
    finish_points("fanout", points, out, as_json)
    for point in points:
        is_goal = point.subscribers == experiment.GOAL_SUBSCRIBERS
        if is_goal and point.way == experiment.UNICAST and not as_json:
            goal = f"CPU us per notification to {point.subscribers:,} subscribers"
            click.echo(str(Verdict(goal, point.cpu_us_per_notification, experiment.GOAL_US)))

"""``nearcast bench deadlines`` and ``bench budget``: message classes in time, loaded or far away."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare
from nearcast.cli.console import json_option, print_warnings, step_progress

__all__ = ["budget", "deadlines"]


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=0.2), default=5.0, show_default=True, help="Of each way."
)
@click.option(
    "--rate",
    "rate_hz",
    type=click.FloatRange(min=1),
    default=3_000.0,
    show_default=True,
    help="Consumer messages per second: more than the server can process.",
)
@out_option
@json_option
def deadlines(seconds: float, rate_hz: float, out: Path | None, as_json: bool) -> None:
    """Measure the share of messages in time, by class, while consumer messages saturate a server.

    The same load comes to an edge server twice: first with classes, then without any. Each of its
    messages takes the server half a millisecond. Warns when the loads were not the same, or did
    not saturate it: then this machine had something else to do.
    """
    from nearcast.experiments.deadlines import saturation

    prepare(out)
    with step_progress(2, enabled=not as_json) as begin:
        points = kept(saturation.run(seconds=seconds, rate_hz=rate_hz, begin=begin))
    finish_points("deadlines", points, out, as_json)
    if len(points) and saturation.loads_differ(points):
        print_warnings(["the loads with and without classes were not the same"])
    if len(points) and min(one.server_cpu_share for one in points) < saturation.SATURATED:
        print_warnings(["the server was not saturated: try a higher --rate"])


@click.command()
@click.option(
    "--deployments",
    default="metropolitan,carrier,edge",
    show_default=True,
    help="Where the servers are: names or TOML files, see docs/deployments.md.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.2), default=5.0, show_default=True, help="Of each."
)
@out_option
@json_option
def budget(deployments: str, seconds: float, out: Path | None, as_json: bool) -> None:
    """Say for each message class and deployment whether its deadline holds.

    A live server, with the distances of each deployment emulated, and no other load.
    """
    from nearcast.experiments.deadlines import deployments as experiment
    from nearcast.site.deployment import load_deployment

    names = [name.strip() for name in deployments.split(",")]
    found = {name: load_deployment(name) for name in names}
    prepare(out)
    with step_progress(len(found), enabled=not as_json) as begin:
        points = kept(experiment.run(found, seconds=seconds, begin=begin))
    finish_points("budget", points, out, as_json)

"""``nearcast bench scale``: what servers hold while a site grows to a million clients."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress

__all__ = ["scale"]


@click.command()
@click.option(
    "--most-clients",
    type=click.Choice(["10000", "100000", "1000000"]),
    default="1000000",
    show_default=True,
    help="Largest site; each edge server has 1,000 clients.",
)
@out_option
@json_option
def scale(most_clients: str, out: Path | None, as_json: bool) -> None:
    """Measure what an edge server and the manager hold, by the size of the site.

    Rows: clients, edges, memory that an edge's orders take there, size of these orders, memory of
    the manager, subscriptions that an edge knows when each client has three, and the messages by
    which other homes told and asked it; seconds until another plan is in force, then until all
    servers have it, and the longest time meanwhile for which the manager answered nobody. An edge
    is told its own clients only: it grows by what the list of all servers takes, not by their
    clients, and knows subscriptions of its own clients and to the topics that it brokers. Each
    figure comes from a process of its own.
    """
    from nearcast.experiments import site_scale

    prepare(out)
    sizes = [size for size in site_scale.SIZES if size <= int(most_clients)]
    with step_progress(5 * len(sizes), enabled=not as_json) as begin:
        points = kept(site_scale.run(sizes, begin=begin))
    finish_points("scale", points, out, as_json)

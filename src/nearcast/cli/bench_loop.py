"""``nearcast bench loop``: clients of a live site move, and it plans itself anew."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from nearcast.cli.bench_output import finish_rows, out_option, prepare, print_rows
from nearcast.cli.console import json_option, step_progress

__all__ = ["loop"]


@click.command()
@click.option("--clients", type=int, default=150, show_default=True)
@click.option("--servers", type=int, default=9, show_default=True, help="Edge servers.")
@click.option("--topics", type=int, default=20, show_default=True)
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Of the clients, that move.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=2, show_default=True, help="After the move."
)
@click.option(
    "--rate",
    "rate_hz",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Publications per second, of all clients together.",
)
@click.option(
    "--delay-factor",
    type=click.FloatRange(min=0, min_open=True),
    default=40.0,
    show_default=True,
    help="On all emulated delays: keeps the machine's own out of the result. Protocols wait as "
    "ever: with 200 the cloud server is two seconds away and back, and streams stand still.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def loop(
    clients: int,
    servers: int,
    topics: int,
    share: float,
    rounds: int,
    rate_hz: float,
    delay_factor: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Move clients of a live site under load, and have it plan itself anew from its log.

    A city runs by a plan made for it. Then whole communities of clients move across its centre.
    Spark learns that from the event log, and after each round the delay from publisher to
    subscriber is measured; at last the same under a plan that was made with full knowledge of the
    new places. After the rounds the measured mean must be within 10 % of that and lower than when they
    had moved, and no message lost, heard twice or processed twice, else the command ends with 1.
    """
    from nearcast.domain.generators.city import City
    from nearcast.experiments.closed_loop.rounds import LoopSettings
    from nearcast.experiments.closed_loop.run import run, step_count

    prepare(out)
    city = City(clients=clients, servers=servers, topics=topics)
    settings = LoopSettings(rate_hz=rate_hz, share=share, rounds=rounds, seed=seed)
    with step_progress(step_count(settings), enabled=not as_json) as begin:
        points, verdict = run(city, settings, delay_factor, begin)
    rows, found = [asdict(point) for point in points], asdict(verdict)
    finish_rows("loop", rows, rows, out, as_json, {"case": "loop", "summary": found})
    if not as_json:
        print_rows([found])
    if not verdict.holds:
        raise click.exceptions.Exit(1)

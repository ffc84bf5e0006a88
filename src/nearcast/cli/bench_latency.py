"""``nearcast bench latency``: the server beside NATS, zenoh and Mosquitto under one load."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import (
    finish_rows,
    kept,
    out_option,
    prepare,
    print_rows,
    whole_numbers,
)
from nearcast.cli.console import json_option, step_progress

__all__ = ["latency"]


@click.command()
@click.option("--rates", default="100,1000,5000", show_default=True, help="Messages per second.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    help="For each run, after a second that is not counted.",
)
@click.option("--rounds", type=click.IntRange(min=0), default=3, show_default=True)
@click.option(
    "--systems", default="nearcast,nearcast-child,nats,zenoh,mosquitto", show_default=True
)
@click.option("--two-edges", is_flag=True, help="Also with the subscribers on another edge server.")
@click.option(
    "--knee",
    is_flag=True,
    help="Also find the highest rate that each system holds for 10 s; alone with --rounds 0.",
)
@out_option
@json_option
def latency(
    rates: str,
    seconds: float,
    rounds: int,
    systems: str,
    two_edges: bool,
    knee: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure delay, loss and CPU time beside other brokers, in interleaved rounds.

    Publishers, a processor over the last 100 messages of a topic, 10 subscribers, 220 bytes, 20
    topics. nearcast works in the server's loop, nearcast-child with the processor in a process of
    its own; both encrypt and acknowledge durably. The others have a worker in Python with the same
    function; they are installed when they are missing (Mosquitto by apt-get, as root), or left out.

    Delays count from the time at which a message was to be sent. Figures are medians over rounds,
    losses those of all rounds; a lost notification had not come 5 s after the last message.
    """
    from nearcast.errors import ConfigError, NearcastError
    from nearcast.experiments.latency.knee import STEPS, find_knees, table
    from nearcast.experiments.latency.rounds import run_rounds, to_rows
    from nearcast.experiments.latency.systems import PEERS, SYSTEMS, TWO_EDGES
    from nearcast.experiments.latency.verdicts import summary, verdicts

    prepare(out)
    rates_hz = whole_numbers("--rates", rates)
    names = [name.strip() for name in systems.split(",")]
    names += [TWO_EDGES] if two_edges and TWO_EDGES not in names else []
    if unknown := [name for name in names if name not in SYSTEMS]:
        raise ConfigError(f"--systems: no system {unknown[0]!r}; there are: {', '.join(SYSTEMS)}")

    broken: list[str] = []

    def skip(system: str, reason: str) -> None:
        click.echo(f"warning: {reason}", err=True)
        broken.extend([reason] if system not in PEERS else [])

    steps = len(names) * (len(rates_hz) * rounds + (STEPS if knee else 0))
    with step_progress(steps, enabled=not as_json) as begin:
        runs = kept(
            run_rounds(names, rates_hz, seconds=seconds, rounds=rounds, skip=skip, begin=begin)
        )
        knees = kept(find_knees(names, skip=skip, begin=begin)) if knee else []
    rows = to_rows(runs)
    more = {"knee": knees} if knee else {}
    finish_rows("latency", rows, summary(rows), out, as_json, more)
    if not as_json:
        print_rows(table(knees))
        for verdict in verdicts(rows, knees):
            click.echo(str(verdict))
    if lost := sum(row["unacknowledged"] for row in rows):
        broken.append(f"{lost:,} durable publications were not acknowledged within 5 s")
    if broken:
        raise NearcastError("; ".join(broken))

"""``nearcast bench stream``: from an event in Kafka to its alert in Kafka."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare, whole_numbers
from nearcast.cli.console import json_option, step_progress
from nearcast.errors import ConfigError

__all__ = ["stream"]

_LARGEST_RATE = 20_000


@click.command()
@click.option(
    "--modes",
    default="micro-batch,real-time,consumer",
    show_default=True,
    help="Of micro-batch, real-time, consumer, echo, site-alert, site-echo.",
)
@click.option(
    "--rates", default="500", show_default=True, help="Events per second, at most 20,000."
)
@click.option("--seconds", type=click.FloatRange(min=1, max=600), default=20.0, show_default=True)
@click.option(
    "--kills",
    type=click.IntRange(min=0, max=100),
    default=2,
    show_default=True,
    help="Kill the first mode so often by SIGKILL, in a measurement of its own.",
)
@click.option(
    "--kill-rate",
    type=click.IntRange(min=1, max=_LARGEST_RATE),
    default=200,
    show_default=True,
    help="Events per second meanwhile.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def stream(
    modes: str,
    rates: str,
    seconds: float,
    kills: int,
    kill_rate: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure the delay from an event to its alert through a real Kafka, and what kills cost.

    `micro-batch` is `nearcast pipeline stream`; `consumer` is `nearcast kafka events`, a Python
    program without Spark; `real-time` is Spark's mode of that name, which takes no Python operators
    and so passes emergencies on by SQL, without the event broker; `echo` is a Python program that
    returns each event. `site-alert` and `site-echo` are the last two between clients of a server:
    from the publisher over Kafka to a subscriber. Lost and doubled alerts are counted against the
    event broker in plain Python over the same events. Kafka's jars must be there (`make kafka-jars`).
    """
    from nearcast.experiments.stream.run import cases, run
    from nearcast.experiments.stream.subjects import MODES

    prepare(out)
    chosen = [one.strip() for one in modes.split(",")]
    if unknown := [one for one in chosen if one not in MODES]:
        raise ConfigError(f"--modes: no mode {unknown[0]!r}; there are: {', '.join(MODES)}")
    numbers = whole_numbers("--rates", rates)
    if max(numbers) > _LARGEST_RATE:
        raise ConfigError(f"--rates: at most {_LARGEST_RATE:,} events per second")
    wanted = cases(chosen, numbers, kills, kill_rate)
    with step_progress(len(wanted), enabled=not as_json) as begin:
        measured = kept(run(wanted, seconds, seed, begin))
    finish_points("stream", measured, out, as_json)

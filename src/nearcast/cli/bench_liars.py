"""``nearcast bench liars``: alerts in scenes with lying reporters."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress
from nearcast.errors import ConfigError

__all__ = ["liars"]


@click.command()
@click.option("--scenes", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option(
    "--shares",
    default="0.2,0.3,0.4",
    show_default=True,
    help="Shares of liars among reporters, comma-separated.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def liars(scenes: int, shares: str, seed: int, out: Path | None, as_json: bool) -> None:
    """Measure how many alerts are true, and how many collisions are alerted.

    Random scenes of 225 vehicles in 3 km by 3 km with a collision in each; liars keep silent about
    it and report others, alone or together, some with forged positions. `witnesses` weighs
    reporters against those who were near and silent, by reputation; `count` wants three reporters
    and nothing else.
    """
    from nearcast.experiments.lying_reporters import RULES, run

    prepare(out)
    chosen = _shares(shares)
    with step_progress(len(chosen) * len(RULES), enabled=not as_json) as begin:
        measured = kept(run(chosen, scenes, seed, begin))
    finish_points("liars", measured, out, as_json)


def _shares(text: str) -> list[float]:
    try:
        shares = [float(one) for one in text.split(",")]
    except ValueError:
        shares = [-1.0]
    if not all(0 <= share <= 1 for share in shares):
        raise ConfigError(f"--shares: {text!r} is no list of numbers from 0 to 1")
    return shares

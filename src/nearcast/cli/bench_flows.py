"""``nearcast bench flows``: flows on real servers."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import chosen_words, finish_points, kept, out_option, prepare
from nearcast.cli.console import json_option, step_progress

__all__ = ["flows"]


@click.command()
@click.option("--cases", default="hand-over,kill,steps,scale-out", show_default=True)
@click.option(
    "--rate",
    "rate_hz",
    type=click.FloatRange(min=1),
    default=2_000.0,
    show_default=True,
    help="Messages per second while parts are handed over.",
)
@click.option("--hand-overs", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--kills", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@out_option
@json_option
def flows(
    cases: str,
    rate_hz: float,
    hand_overs: int,
    kills: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Hand parts of a running component over, kill servers meanwhile, divide hard work.

    A cloud server and two edges, all of them processes of their own; four clients publish, one
    hears everything that comes out, which is checked message by message.

    \b
    hand-over  half of a component that counts by key moves to and fro
    kill       the same, and giver or taker are killed up to 30 ms after it began
    steps      the same, killed exactly before and after each message of the hand-over
    scale-out  a component that needs more than a core, with 15 and 30 ms a message: servers
               divide it by themselves
    """
    from nearcast.experiments.flows.run import CASES, FlowTrial, run, steps_of

    chosen = chosen_words("--cases", cases, CASES)
    prepare(out)
    trial = FlowTrial(rate_hz, hand_overs, kills, seed=seed)
    with step_progress(len(steps_of(chosen, trial)), enabled=not as_json) as begin:
        points = kept(run(chosen, trial, begin))
    finish_points("flows", points, out, as_json)
    if any(
        one.lost
        or one.untold
        or one.doubled
        or one.out_of_order
        or (one.told_late and not one.kills)
        or one.steps_missed
        or one.undivided
        for one in points
    ):
        raise SystemExit(1)

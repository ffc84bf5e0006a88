"""``nearcast bench overlay``: hops, messages and memory of overlays, and a crash of many peers."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import (
    chosen_words,
    finish_rows,
    kept,
    out_option,
    prepare,
    print_rows,
    whole_numbers,
)
from nearcast.cli.console import json_option, step_progress
from nearcast.errors import ConfigError

__all__ = ["overlay"]


@click.command()
@click.option(
    "--keys",
    default="100,1000,10000,100000",
    show_default=True,
    help="Numbers of keys, comma-separated.",
)
@click.option(
    "--overlays",
    default="suzaku,skipgraph,chordsharp",
    show_default=True,
    help="Which of them, comma-separated.",
)
@click.option(
    "--states",
    default="converged,random,ascending,descending,adversarial,deleted",
    show_default=True,
    help="Of their tables, comma-separated.",
)
@click.option(
    "--most-joins",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Above it only converged tables are measured; 100,000 joins take two to three minutes each.",
)
@click.option(
    "--churn-keys",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Peers of which a fifth crashes at once; 0: leave that out.",
)
@click.option(
    "--turnover-peers",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Peers that come and go for a minute; 0: leave that out.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def overlay(
    keys: str,
    overlays: str,
    states: str,
    most_joins: int,
    churn_keys: int,
    turnover_peers: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure lookups through an overlay, in virtual time, against a sorted list.

    Rows: overlay, number of keys, state of its tables, mean and longest way in hops, the bound of
    the longest, wrong answers, messages per join, seconds, memory. States: converged tables; right
    after joins in random, ascending, descending or adversarial order; after a quarter of the keys,
    all neighbours, left at once. Then: what share of lookups is answered while a fifth of the
    peers crashes, and while each second one peer joins and another one leaves or crashes.
    """
    from dataclasses import asdict

    from nearcast.experiments import overlay_churn, overlay_scale, overlay_turnover

    counts = whole_numbers("--keys", keys)
    prepare(out)
    chosen = overlay_scale.cases(
        counts,
        chosen_words("--overlays", overlays, overlay_scale.OVERLAYS),
        chosen_words("--states", states, overlay_scale.STATES),
        most_joins,
    )
    if not chosen:
        raise ConfigError(
            f"--states: only converged tables above {most_joins:,} keys (--most-joins)"
        )
    steps = len(chosen) + bool(churn_keys) + bool(turnover_peers)
    with step_progress(steps, enabled=not as_json) as begin:
        points = kept(overlay_scale.run(chosen, seed, begin))
        seconds, turnover = [], []
        if churn_keys and len(points) == len(chosen):
            begin(f"crash of {churn_keys // 5} of {churn_keys} peers")
            seconds = [asdict(second) for second in overlay_churn.run(churn_keys, seed)]
        if turnover_peers and len(points) == len(chosen):
            begin(f"{turnover_peers} peers of which some come and go")
            settings = overlay_turnover.Turnover(turnover_peers)
            turnover = [asdict(second) for second in overlay_turnover.run(settings, seed)]
    rows = [asdict(point) for point in points]
    finish_rows("overlay", rows, rows, out, as_json, {"churn": seconds, "turnover": turnover})
    if not as_json:
        for some in (seconds, turnover):
            print_rows([second for second in some if second["second"] % 4 == 0])
        left_out = [count for count in counts if count > most_joins]
        if left_out:
            click.echo(f"above {most_joins:,} keys: converged tables only (--most-joins)")
        click.echo(
            f"chordsharp: tables made by joins up to {overlay_scale.CHORD_MOST_JOINS:,} keys; "
            "its ways are as long as the ring then"
        )
    if out is not None:
        from nearcast.pictures.style import save_figure

        save_figure(overlay_scale.draw(points), out / "overlay.png")

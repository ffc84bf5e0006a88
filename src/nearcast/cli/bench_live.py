"""``nearcast bench live`` and ``nearcast bench echo``: real servers on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import (
    finish,
    finish_rows,
    kept,
    out_option,
    prepare,
    whole_numbers,
)
from nearcast.cli.console import json_option, step_progress

__all__ = ["echo", "live"]


@click.command()
@click.option("--methods", default="nearest,reloc,optimised", show_default=True)
@click.option(
    "--objectives",
    default="d1,d2,d3",
    show_default=True,
    help="Of plans of the placement model; empty: none.",
)
@click.option("--sigma", default=5.0, show_default=True, help="Spread of a topic's members, km.")
@click.option("--spool-per-member", default=2.0, show_default=True)
@click.option("--topics", default=64, show_default=True)
@click.option(
    "--delay-factor",
    default=100.0,
    show_default=True,
    help="On all emulated delays: keeps the machine's own timers out of the result.",
)
@click.option(
    "--rounds", default=1, show_default=True, help="Publications per publisher and topic."
)
@click.option("--rate", "rate_hz", default=30.0, show_default=True, help="Of all, per second.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def live(
    methods: str,
    objectives: str,
    sigma: float,
    spool_per_member: float,
    topics: int,
    delay_factor: float,
    rounds: int,
    rate_hz: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run plans on real servers with emulated distances: predicted against measured delay.

    The scenario is that of the 2021 paper: 64 topics, about 900 clients, 16 edge servers; for
    plans of the placement model that of the 2022 paper: 30 clients, 7 edge servers, each topic
    published straight to the server that the plan names. The measured mean must be within 10 %
    of the factor times the prediction plus the measured processing time.
    """
    from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
    from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
    from nearcast.domain.plan import Objective
    from nearcast.experiments import live_delays
    from nearcast.experiments.site_measure import LiveSettings

    prepare(out)
    scenario = generate_reloc2021(
        Reloc2021(sigma_km=sigma, spool_per_member=spool_per_member, topics=topics), seed
    )
    aims = [Objective(one) for one in objectives.lower().split(",") if one]
    cases = [
        *live_delays.ratio_cases(scenario, [one for one in methods.split(",") if one], seed),
        *live_delays.placement_cases(generate_placement2022(Placement2022(), seed), aims, seed),
    ]
    settings = LiveSettings(delay_factor, rounds, rate_hz, seed=seed)
    with step_progress(6 * len(cases) + len(aims), enabled=not as_json) as begin:
        runs = kept(live_delays.run(cases, settings, begin=begin))
    points = [one.point for one in runs]
    finish("live", points, live_delays.summary(points), out, as_json)
    if out is not None and runs:
        live_delays.write_report(scenario, runs, settings, out)


@click.command()
@click.option("--rates", default="1,10,100,250,500,750,1000", show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="For each rate.")
@click.option("--knee/--no-knee", default=True, help="Go on until it breaks.")
@out_option
@json_option
def echo(rates: str, seconds: float, knee: bool, out: Path | None, as_json: bool) -> None:
    """Measure round trips client - edge - broker - back at rising rates (Mercury's test)."""
    from dataclasses import asdict

    from nearcast.experiments import echo_rate

    prepare(out)
    rates_hz = whole_numbers("--rates", rates)
    with step_progress(len(rates_hz) + 7, enabled=not as_json) as begin:
        points = kept(echo_rate.run(rates_hz, seconds=seconds, find_knee=knee, begin=begin))
    rows = [asdict(point) for point in points]
    summary = echo_rate.summary(points)
    finish_rows("echo", rows, summary, out, as_json, {"case": "echo", "summary": summary})

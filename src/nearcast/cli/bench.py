"""``nearcast bench``: speed, memory and quality of the planners, measured on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_areas import areas
from nearcast.cli.bench_deadlines import budget, deadlines
from nearcast.cli.bench_fanout import fanout
from nearcast.cli.bench_flows import flows
from nearcast.cli.bench_latency import latency
from nearcast.cli.bench_liars import liars
from nearcast.cli.bench_live import echo, live
from nearcast.cli.bench_loop import loop
from nearcast.cli.bench_output import finish, kept, out_option, prepare
from nearcast.cli.bench_overlay import overlay
from nearcast.cli.bench_pipeline import pipeline, relations
from nearcast.cli.bench_scale import scale
from nearcast.cli.bench_sdk import sdk
from nearcast.cli.bench_sessions import sessions
from nearcast.cli.bench_split import split
from nearcast.cli.bench_stream import stream
from nearcast.cli.bench_survive import survive
from nearcast.cli.console import json_option, step_progress

__all__ = ["bench"]


@click.group()
def bench() -> None:
    """Measure speed, memory and quality on this machine.

    \b
      plan       seconds and memory from 10^3 to 10^6 clients
      gap        distance of `optimised` to the proven bound, against seconds
      placement  search against proven optima, and the time to prove them
      replan     warm starts after clients moved, against planning from scratch
      relations  the relations stage against a DataFrame self-join and scipy
      pipeline   raw log to plan on Spark, stage by stage, up to a million clients
      split      `optimised` over executors against memory, at equal CPU time
      stream     events in Kafka to alerts in Kafka, by Spark and by a consumer; kills
      loop       clients move, a live site plans itself anew: against full knowledge
      live       plans on real servers with emulated distances, predicted against measured
      echo       round trips client - edge - broker - back at rising rates
      latency    delay and CPU time beside NATS, zenoh and Mosquitto under one load
      fanout     one message to many subscribers, one by one and by multicast
      deadlines  message classes in time while a server has too much to do
      budget     message classes in time, by where the servers are
      flows      data flows on real servers: hand-overs, kills, hard work divided
      sdk        CPU time of a program per notification that it receives
      sessions   memory and CPU time of many idle sessions on one edge server
      scale      what an edge and the manager hold in sites of up to a million clients
      overlay    hops and messages of a ring of keys, up to 100,000, and a crash of many
      areas      points in areas and areas at a point, beside other indexes
      liars      alerts in scenes with lying reporters: precision and recall
      survive    kills, cuts, attacks and bad input: are all promises kept
    """


@bench.command()
@click.option(
    "--most-clients",
    type=click.Choice(["1000", "10000", "100000", "1000000"]),
    default="1000000",
    show_default=True,
    help="Largest size.",
)
@click.option("--methods", default="nearest,reloc,optimised", show_default=True)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    default=55.0,
    show_default=True,
    help="Seconds of search for optimised at a million clients; less for fewer.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@out_option
@json_option
def plan(
    most_clients: str,
    methods: str,
    time_limit_s: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure planning from a thousand clients up, each method in a process of its own."""
    from nearcast.experiments import plan_scale

    prepare(out)
    sizes = [size for size in plan_scale.SIZES if size <= int(most_clients)]
    names = methods.split(",")
    with step_progress(len(sizes) * len(names), enabled=not as_json) as begin:
        points = kept(
            plan_scale.run(sizes, names, seed=seed, time_limit_s=time_limit_s, begin=begin)
        )
    finish("plan", points, None, out, as_json)
    if out is not None:
        from nearcast.pictures.style import save_figure

        save_figure(plan_scale.draw(points), out / "plan.png")


@bench.command()
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--settings", help="Comma-separated; default: all.")
@click.option(
    "--seconds", default="0.25,0.5,1,2,10", show_default=True, help="Time limits of the search."
)
@out_option
@json_option
def gap(seeds: int, settings: str | None, seconds: str, out: Path | None, as_json: bool) -> None:
    """Measure the gap of `optimised` to the proven bound, against seconds.

    Settings: sigma 1, sigma 5, sigma 10, sigma 15, sigma 20, overlap 0.3, p 4, p 8 (reloc2021, ratio
    model) and ratio 0.07, ratio 0.52, ratio 0.81, ratio 0.95, ratio 1.28 (reloc2020, connections
    model).
    """
    from nearcast.experiments import gap as experiment

    prepare(out)
    chosen = dict(experiment.SETTINGS)
    if settings is not None:
        wanted = [name.strip() for name in settings.split(",")]
        if unknown := [name for name in wanted if name not in chosen]:
            raise click.BadParameter(f"no setting {unknown[0]!r}; there are: {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in wanted}
    limits_s = [float(text) for text in seconds.split(",")]
    with step_progress(seeds * len(chosen), enabled=not as_json) as begin:
        points = kept(experiment.run(chosen, range(seeds), limits_s, begin=begin))
    finish("gap", points, experiment.summary(points), out, as_json)
    if out is not None:
        from nearcast.pictures.style import save_figure

        save_figure(experiment.draw(points), out / "gap.png")


@bench.command()
@click.option("--seeds", type=click.IntRange(min=1), default=20, show_default=True)
@click.option(
    "--search-limit", type=float, default=1.0, show_default=True, help="Seconds of search."
)
@out_option
@json_option
def placement(seeds: int, search_limit: float, out: Path | None, as_json: bool) -> None:
    """Measure the placement search against proven optima, and the CPU time to prove them."""
    from nearcast.experiments import placement_gap

    prepare(out)
    with step_progress(3 * seeds, enabled=not as_json) as begin:
        points = kept(placement_gap.run(range(seeds), search_limit_s=search_limit, begin=begin))
    finish("placement", points, placement_gap.summary(points), out, as_json)


@bench.command()
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--clients", type=int, default=10_000, show_default=True)
@click.option(
    "--moved", type=float, default=0.01, show_default=True, help="Share of clients that moved."
)
@click.option("--price", type=float, default=2.0, show_default=True, help="Per migrated spool, ms.")
@out_option
@json_option
def replan(
    seeds: int, clients: int, moved: float, price: float, out: Path | None, as_json: bool
) -> None:
    """Measure re-planning after a part of the clients moved against planning from scratch."""
    from nearcast.experiments import replanning

    prepare(out)
    with step_progress(seeds, enabled=not as_json) as begin:
        points = kept(replanning.run(clients, moved, price, range(seeds), begin=begin))
    finish("replan", points, None, out, as_json)


bench.add_command(relations)
bench.add_command(pipeline)
bench.add_command(split)
bench.add_command(stream)
bench.add_command(loop)
bench.add_command(live)
bench.add_command(echo)
bench.add_command(latency)
bench.add_command(scale)
bench.add_command(fanout)
bench.add_command(deadlines)
bench.add_command(budget)
bench.add_command(flows)
bench.add_command(sdk)
bench.add_command(sessions)
bench.add_command(overlay)
bench.add_command(areas)
bench.add_command(liars)
bench.add_command(survive)

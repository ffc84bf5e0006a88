"""``nearcast replan``: a running site learns from its own log and plans itself anew."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, show_number
from nearcast.cli.durations import DURATION
from nearcast.cli.spark_options import SparkOptions, spark_options
from nearcast.cli.stopping import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.site.replan_rounds import ReplanRound
    from nearcast.site.replanner import SiteOfReplanner

__all__ = ["replan"]

_LAST_ROUND_S = 15.0


@click.command()
@click.option(
    "--site",
    "where",
    required=True,
    metavar="DIR|URL",
    help="Folder of a site on this machine, or the scenario that `nearcast up` was given; or the "
    "manager's http://HOST:PORT.",
)
@click.option("--token-file", type=click.Path(path_type=Path), help="With a URL: its token.")
@click.option(
    "--scenario", type=click.Path(path_type=Path), help="With a URL: the site's scenario."
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="With a URL: the folder of the event log of all servers.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    help="With a URL: where rounds and plans are kept; the manager reads plans there.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="How many.  [default: until Ctrl-C]")
@click.option(
    "--every", "every_s", type=DURATION, default=60.0, show_default="60s", help="Between rounds."
)
@click.option(
    "--window",
    "window_s",
    type=DURATION,
    help="How much of the log counts, from now backwards.  [default: as --every]",
)
@click.option(
    "--method", default="optimised", show_default=True, help="As of `nearcast plan --method`."
)
@click.option(
    "--migration-price",
    "migration_price_ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="ms of summed delay that moving one spool must save.",
)
@click.option(
    "--least-saving",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    help="Part of the cost that another plan must save before the site switches.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds for each search.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--until-stdin-ends", is_flag=True, hidden=True)
@spark_options
@json_option
def replan(
    where: str,
    token_file: Path | None,
    scenario: Path | None,
    log: Path | None,
    work: Path | None,
    rounds: int | None,
    every_s: float,
    window_s: float | None,
    method: str,
    migration_price_ms: float,
    least_saving: float,
    time_limit_s: float,
    seed: int,
    until_stdin_ends: bool,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Let a running site plan itself anew from its own log, round by round.

    In each round Spark learns from the last minutes of the event log where clients are and who
    publishes what, the planner looks for a better plan near the one in force, and the manager
    switches to it if that pays: nothing is lost or processed twice. Then the delays of the log are
    measured until the next round, and the round is told; with --json as one object per line.
    A round that fails leaves the plan in force and says why. All rounds are kept in
    SITE/replans/rounds.jsonl.

    \b
      nearcast replan --site city --rounds 1 --every 20s
    """
    from nearcast.domain.plan import Model
    from nearcast.planning.registry import find_method
    from nearcast.site.replanner import Replanner, ReplanSettings

    find_method(method, Model.RATIO)
    site = _site(where, token_file, scenario, log, work)
    settings = ReplanSettings(
        every_s=every_s,
        window_s=window_s,
        method=method,
        migration_price_ms=migration_price_ms,
        least_saving=least_saving,
        time_limit_s=time_limit_s,
        seed=seed,
    )
    replanner = Replanner(site, settings, lambda: _session(spark_with))
    failed = None
    with Stop(interrupt_at=2) as stop:  # at the first one the round under way ends, and is told
        if until_stdin_ends:
            threading.Thread(target=_end_with_stdin, args=(stop.event,), daemon=True).start()
        for number, done in enumerate(replanner.rounds(stop.event), start=1):
            if as_json:
                print_json(asdict(done))
            else:
                click.echo(_row(number, done))
            failed = done.reason if done.failed else None
            if number == rounds:
                break
    if failed is not None:
        raise click.ClickException(f"the last round failed: {failed}")


def _session(options: SparkOptions) -> AbstractContextManager[SparkSession]:
    from nearcast.pipeline.session import SparkSettings, open_session

    return open_session(
        SparkSettings(
            master=options.master,
            name="nearcast replan",
            driver_memory=options.driver_memory,
            ui=False,
            conf=options.conf,
        )
    )


def _site(
    where: str,
    token_file: Path | None,
    scenario: Path | None,
    log: Path | None,
    work: Path | None,
) -> SiteOfReplanner:
    from nearcast.cli.manager_access import find_manager
    from nearcast.site.layout import SiteFolder
    from nearcast.site.plan_access import ManagerAccess
    from nearcast.site.replan_rounds import RoundsFolder
    from nearcast.site.replanner import SiteOfReplanner

    given = (token_file, scenario, log, work)
    if where.startswith(("http://", "https://")):
        if token_file is None or scenario is None or log is None or work is None:
            raise click.UsageError("a URL needs --token-file, --scenario, --log and --work too")
        manager = ManagerAccess(*find_manager(None, where, token_file))
        return SiteOfReplanner(manager, scenario, log, RoundsFolder(work))
    if any(one is not None for one in given):
        raise click.UsageError("--token-file, --scenario, --log and --work are for a URL")
    return SiteOfReplanner.of_folder(SiteFolder.find(Path(where)))


def _end_with_stdin(stop: threading.Event) -> None:
    """End with the process that has the other end of stdin, even in the middle of a round."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    stop.set()
    time.sleep(_LAST_ROUND_S)
    os._exit(1)


def _row(number: int, done: ReplanRound) -> str:
    if done.failed:
        return f"round {number}: failed, the plan in force stays: {done.reason}"
    costs = f"{show_number(done.cost_before)} -> {show_number(done.cost_after)} ms"
    measured = (
        f"{show_number(done.measured_before_ms, 2)} -> {show_number(done.measured_after_ms, 2)} ms"
    )
    if done.switched:
        what = f"switched to plan {done.plan_version}"
        if done.pause_p99_ms is not None:
            what += f", {done.streams} streams paused {done.pause_p99_ms:.0f} ms (p99)"
        if done.reason:
            what += f"; {done.reason}"
    else:
        what = f"stays with plan {done.plan_version}: {done.reason}"
    return (
        f"round {number}: cost {costs} (bound {show_number(done.bound)}), "
        f"{done.migrations} migrations, measured {measured}; {what}"
    )

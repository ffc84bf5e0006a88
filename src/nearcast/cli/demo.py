"""``nearcast demo``: the whole system from start to end, on a generated city."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearcast.cli.console import json_option, print_json, print_table, print_warnings, show_number
from nearcast.cli.demo_vehicles import vehicles
from nearcast.cli.options import seed_option

if TYPE_CHECKING:
    from nearcast.experiments.demo_live import DemoTeller

__all__ = ["city", "demo"]


class _DemoGroup(click.Group):
    """Without the name of another demo it is the one of the city."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if named else ["city", *args])


@click.group(cls=_DemoGroup)
def demo() -> None:
    """Show the system at work: the city, or with a further word `vehicles`."""


demo.add_command(vehicles)


@demo.command()
@click.option("--clients", type=int, default=400, show_default=True, help="Number of clients.")
@click.option("--servers", type=int, default=12, show_default=True, help="Number of edge servers.")
@click.option("--topics", type=int, default=40, show_default=True, help="Number of topics.")
@click.option(
    "--methods",
    default="nearest,reloc,optimised",
    show_default=True,
    help="Whose plans the site runs, one after the other.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    default=3.0,
    show_default=True,
    help="Seconds for each method that searches.",
)
@click.option(
    "--delay-factor",
    type=click.FloatRange(min=0, min_open=True),
    default=40.0,
    show_default=True,
    help="On all emulated delays: large, so that a busy machine's own delays matter little. "
    "Protocols wait as ever: with 100 the cloud server is a second away and back, and streams "
    "that move stand still for long.",
)
@click.option(
    "--rate",
    "rate_hz",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Publications per second, of all clients together.",
)
@seed_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for everything that is made, and the report.",
)
@json_option
def city(
    clients: int,
    servers: int,
    topics: int,
    methods: str,
    time_limit_s: float,
    delay_factor: float,
    rate_hz: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Show the whole system at work on a generated city, and write a report.

    Draws a city and the log that its clients would have left; Spark learns from the log who takes
    part in what and where, and plans; then a site of real servers runs each plan, all clients
    connect and publish, and every notification is timed at its subscriber. On the last site most
    clients then move, Spark learns that from the servers' logs, and the site plans itself anew while
    messages flow. At last vehicles drive past simulated servers, and each alert is checked.

    \b
      OUT/city, OUT/log    the city and its log
      OUT/run              what the pipeline learned: tables, scenario, plan
      OUT/site-METHOD      the site under a plan: keys, spools, event log, output of servers
      OUT/report.html      predicted against measured

    Another one: nearcast demo vehicles --help
    """
    from nearcast.domain.generators.city import City
    from nearcast.domain.plan import Model
    from nearcast.experiments.demo_report import (
        demo_json,
        disturbed,
        next_commands,
        write_demo_report,
    )
    from nearcast.experiments.demo_site import DemoSettings, run_demo, step_count
    from nearcast.experiments.site_measure import LiveSettings
    from nearcast.pictures.report_folder import prepare_report_folder
    from nearcast.planning.registry import find_method

    names = list(dict.fromkeys(name.strip() for name in methods.split(",")))
    for name in names:
        find_method(name, Model.RATIO)
    settings = DemoSettings(
        City(clients=clients, servers=servers, topics=topics),
        names,
        LiveSettings(delay_factor=delay_factor, rounds=1, rate_hz=rate_hz, seed=seed),
        time_limit_s,
        seed=seed,
    )
    prepare_report_folder(out)
    started_s = time.monotonic()
    with _telling(step_count(settings) + 1, not as_json) as teller:
        done = run_demo(settings, out, teller)
        teller.begin("writing the report")
        page, notifications = write_demo_report(done, settings, out)
    found = demo_json(done, settings, notifications)
    seconds = round(time.monotonic() - started_s, 1)
    if busy := disturbed(found):
        print_warnings(
            [
                f"this machine is busy: what was measured of {', '.join(busy)} is too long; try "
                "again later, or with a lower --rate or a larger --delay-factor"
            ]
        )
    drive = done.drive
    if drive is not None and drive.has_failed:
        print_warnings([f"vehicles: not all heard what they should: {drive.found}"])
    if as_json:
        print_json({"report": str(page), "seconds": seconds, **found})
        return
    _print(found)
    click.echo(f"the report: {page} ({seconds:.0f} s in all)")
    click.echo("next:")
    for why, command in next_commands(done, settings, out):
        click.echo(f"  # {why}\n  {command}")


def _print(found: dict[str, Any]) -> None:
    rows = [
        (
            one["method"],
            show_number(one["predicted_ms"], 1),
            show_number(one["measured_ms"], 1),
            show_number(one["ratio"], 2),
            show_number(one["p99_ms"], 1),
            f"{one['notifications']:,}",
            f"{one['missing']:,}",
        )
        for one in found["methods"]
    ]
    columns = ["method", "predicted", "measured", "ratio", "99 %"]
    learned = found["learned"]
    click.echo(
        f"Spark learned {learned['clients']:,} of {learned['all_clients']:,} clients and "
        f"{learned['memberships']:,} of {learned['all_memberships']:,} memberships from "
        f"{found['log_rows']:,} rows"
    )
    print_table(
        [*columns, "notified", "missing"],
        rows,
        title=f"ms from publisher to subscriber, delays of the network x {found['delay_factor']:g}",
    )
    if (loop := found["replanned"]) is not None:
        measured = ", ".join(f"{ms:.1f} {phase}" for phase, ms in loop["measured_ms"].items())
        click.echo(
            f"{loop['moved_clients']} clients moved, and the site planned itself anew: ms {measured}; "
            f"lost {loop['lost']}, doubled {loop['doubled']}"
        )
    if (drive := found["vehicles"]) is not None:
        click.echo(
            f"{drive['vehicles']} vehicles past {drive['edges']} simulated servers: "
            f"{drive['handovers']} hand-overs; {drive['delivered']} of {drive['expected']} heard "
            f"the {drive['alerts']} alerts, {drive['false']} others did; lost {drive['lost']}, "
            f"doubled {drive['doubled']}"
        )


class _Lines:
    """A line for each step, where nothing can be drawn."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def begin(self, step: str) -> None:
        click.echo(f"{time.monotonic() - self._started_s:5.0f} s  {step}", err=True)

    def count(self, done: int, total: int) -> None:
        pass


class _Silent(_Lines):
    def begin(self, step: str) -> None:
        pass


@contextmanager
def _telling(steps: int, enabled: bool) -> Iterator[DemoTeller]:
    """Show a bar over the steps, with counts of the one under way."""
    if not enabled or not sys.stderr.isatty():
        yield _Lines() if enabled else _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}{task.fields[counts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=steps, counts="")

        class Bar:
            def __init__(self) -> None:
                self._begun = -1

            def begin(self, step: str) -> None:
                self._begun += 1
                bars.update(task, description=step, completed=self._begun, counts="")

            def count(self, done: int, total: int) -> None:
                bars.update(task, counts=f"  {done:,}/{total:,}" if total else "")

        yield Bar()

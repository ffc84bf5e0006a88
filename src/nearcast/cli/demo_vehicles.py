"""``nearcast demo vehicles``: vehicles drive past edge servers, incidents happen, alerts are checked."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.options import seed_option

if TYPE_CHECKING:
    from nearcast.experiments.vehicles.incidents import Collision
    from nearcast.mobility.moment import Mover

__all__ = ["vehicles"]

_SIMULATED = (
    "Simulated: the true servers, brokers and sessions in one thread, with made-up time, network "
    "(10 ms from vehicle to server, 2 ms between servers, 1 ms jitter) and disks; computing takes "
    "no time there."
)


@click.command()
@click.option("--vehicles", "count", type=int, default=2000, show_default=True, help="How many.")
@click.option("--edges", type=int, default=16, show_default=True, help="Number of edge servers.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.5, max=600),
    default=10.0,
    show_default=True,
    help="How long they drive, in their own time.",
)
@click.option(
    "--report-s",
    type=int,
    default=5,
    show_default=True,
    help="How often each vehicle says where it is; also how fresh its place is for alerts.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="A recorded trace (Parquet: time_s, vehicle, x_km and y_km or lon and lat, speed_mps, "
    "angle_deg; or SUMO's --fcd-output FILE.parquet) instead of SUMO.",
)
@click.option(
    "--net", type=click.Path(path_type=Path), help="A network for SUMO (.net.xml) of one's own."
)
@click.option(
    "--collision",
    metavar="X,Y,RADIUS",
    help="One collision at this place (km), of which all within the radius are told, instead of "
    "incidents by chance.",
)
@click.option("--synthetic", is_flag=True, help="A made-up grid of streets instead of SUMO.")
@click.option("--blocks", type=int, default=20, show_default=True, help="Of a made city's side.")
@seed_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("vehicles-output"),
    show_default=True,
    help="Folder for report.html, vehicles.gif and vehicles.png.",
)
@json_option
def vehicles(
    count: int,
    edges: int,
    minutes: float,
    report_s: int,
    trace: Path | None,
    net: Path | None,
    collision: str | None,
    synthetic: bool,
    blocks: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Show vehicles that drive from edge server to edge server, and are alerted.

    SUMO drives them through a city (or a trace does, or a made-up grid). Each has its home at the
    server that covers where it is; the next home is ready before it gets there. Incidents happen,
    vehicles near them report them, and each alert is checked by looking at all vehicles one by one:
    all in its area must hear it, nobody else, and nobody twice. Ends with 1 when something is
    not so.

    The servers are the true ones, run by the deterministic simulator: all of them and 2,000
    vehicles in real time need more cores than a small machine has.
    """
    from nearcast.errors import ConfigError
    from nearcast.experiments.vehicles.page import write_vehicle_page
    from nearcast.experiments.vehicles.run import DriveSettings, drive_simulated
    from nearcast.pictures.report_folder import prepare_report_folder

    if sum((trace is not None, net is not None, synthetic)) > 1:
        raise ConfigError("--trace, --net and --synthetic: one of them at most")
    alone = None if collision is None else _collision(collision)
    settings = DriveSettings(edges, round(minutes * 60), report_s, seed, alone)
    mover = _mover(count, settings.seconds, trace, net, synthetic, blocks, seed)
    prepare_report_folder(out)
    started_s, told_s = time.monotonic(), 0.0

    def tell(done: int, total: int) -> None:
        nonlocal told_s
        if not as_json and time.monotonic() - told_s >= 2.0:
            told_s = time.monotonic()
            click.echo(f"{told_s - started_s:5.0f} s  second {done} of {total}", err=True)

    drive = drive_simulated(mover, settings, tell)
    by = "a trace" if trace else "a made-up grid" if synthetic else "SUMO"
    command = (
        "nearcast " + " ".join(sys.argv[1:]) if len(sys.argv) > 1 else "nearcast demo vehicles"
    )
    page = write_vehicle_page(drive, f"Driven by {by}. {_SIMULATED}", command, out)
    found = {
        **drive.found,
        "driven_by": by,
        "how": "simulated",
        "report": str(page),
        "wall_seconds": round(time.monotonic() - started_s, 1),
    }
    if as_json:
        print_json(found)
    else:
        _print(found)
    if drive.has_failed:
        raise click.exceptions.Exit(1)


def _collision(text: str) -> Collision:
    from nearcast.errors import AreaError, ConfigError
    from nearcast.experiments.vehicles.incidents import Collision
    from nearcast.geo.shapes import Circle

    try:
        x_km, y_km, radius_km = map(float, text.split(","))
        Circle(x_km, y_km, radius_km)  # complains
    except (ValueError, AreaError) as error:
        raise ConfigError(f"--collision {text!r:.40}: is X,Y,RADIUS in km: {error}") from None
    return Collision(x_km, y_km, radius_km)


def _mover(
    count: int,
    seconds: int,
    trace: Path | None,
    net: Path | None,
    synthetic: bool,
    blocks: int,
    seed: int,
) -> Mover:
    if trace is not None:
        from nearcast.mobility.trace import TraceMover

        return TraceMover(trace)
    if synthetic:
        from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams

        return SyntheticMover(SyntheticParams(count, blocks, seconds=seconds, seed=seed))
    from nearcast.mobility.sumo import SumoMover

    return SumoMover(count, seconds, net, blocks, seed)


def _print(found: dict[str, Any]) -> None:
    click.echo(
        f"{found['vehicles']:,} vehicles (driven by {found['driven_by']}) past {found['edges']} "
        f"edge servers in {found['seconds']:,} s: {found['handovers']:,} hand-overs. {_SIMULATED}"
    )
    names = ("alerts", "expected", "delivered", "false", "missed", "unalerted", "lost", "doubled")
    print_table(list(names), [tuple(f"{found[name]:,}" for name in names)], title="what was heard")
    rows = [
        (
            name,
            f"{100 * share:.2f} %",
            f"{found['delay_ms'][name]['p50']:.1f}",
            f"{found['delay_ms'][name]['p99']:.1f}",
        )
        for name, share in found["in_deadline"].items()
    ]
    print_table(["class", "in time", "p50 ms", "p99 ms"], rows, title="from report to vehicle")
    click.echo(f"the report: {found['report']} ({found['wall_seconds']:.0f} s in all)")

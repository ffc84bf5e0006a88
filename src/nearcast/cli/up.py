"""``nearcast up``: a whole site on one machine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, print_table, step_progress
from nearcast.cli.durations import DURATION
from nearcast.cli.group_options import group_option
from nearcast.cli.kafka_options import log_to_kafka_options
from nearcast.cli.processor_options import (
    notify_after_sync_option,
    processor_for_option,
    processor_option,
    processor_options_option,
    rules_for_site,
)
from nearcast.cli.stopping import Stop

if TYPE_CHECKING:
    from nearcast.links.kafka_settings import KafkaSettings
    from nearcast.site.live_site import LiveSite
    from nearcast.site.replan_process import ReplanProcess
    from nearcast.wire.group_settings import GroupSettings

__all__ = ["up"]


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--plan",
    "plan_folder",
    type=click.Path(path_type=Path),
    help="The plan to run.  [default: the manager plans]",
)
@click.option(
    "--model",
    type=click.Choice(["connections", "ratio", "placement"]),
    default="ratio",
    show_default=True,
    help="Without --plan: the delay model to plan by.",
)
@click.option(
    "--method", default="optimised", show_default=True, help="Without --plan: how to plan."
)
@click.option(
    "--site",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the site: keys, spools, logs; kept between runs.  [default: SCENARIO/site]",
)
@click.option("--no-delays", is_flag=True, help="Emulate no delays.")
@click.option(
    "--delay-factor",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="On all emulated delays: a large one keeps timer noise out of measurements.",
)
@click.option(
    "--deployment",
    metavar="NAME|FILE",
    help="Where the servers stand in a mobile network: metropolitan, carrier, edge or a TOML file; "
    "see docs/deployments.md.  [default: only the scenario's distances]",
)
@group_option(", each edge server at a port of its own from PORT on")
@processor_option
@processor_options_option
@processor_for_option
@notify_after_sync_option
@log_to_kafka_options
@click.option(
    "--replan-every",
    "replan_every_s",
    type=DURATION,
    help="Have the site plan itself anew from its log, as `nearcast replan` does, with such "
    "pauses: 60s.  [default: never]",
)
@click.option(
    "--migration-price",
    "migration_price_ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="With --replan-every: ms of summed delay that moving one spool must save.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0),
    help="Stop after this many seconds.  [default: at Ctrl-C]",
)
@json_option
def up(
    scenario: Path,
    plan_folder: Path | None,
    model: str,
    method: str,
    folder: Path | None,
    no_delays: bool,
    delay_factor: float,
    deployment: str | None,
    group: GroupSettings | None,
    processor: str,
    processor_options: str,
    processors_for: tuple[str, ...],
    notify_after_sync: bool,
    replan_every_s: float | None,
    migration_price_ms: float,
    kafka: KafkaSettings | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Run the whole site of SCENARIO on this machine until Ctrl-C.

    Starts the manager, the cloud server and all edge servers as processes, with the delays of the
    scenario's geometry emulated on every link, enrols all clients and writes their credentials.

    \b
      nearcast scenario generate city --clients 30 --servers 2 --topics 4 --seed 1 --out city
      nearcast up city
    and in other terminals:
    \b
      nearcast status city
      nearcast client subscribe --credentials city/site/clients/2.json --topic 1
      nearcast client publish --credentials city/site/clients/1.json --topic 1 --message hello

    The event log (SCENARIO/site/log/publications) can be read by `nearcast pipeline run` at any time.
    """
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.site.deployment import load_deployment
    from nearcast.site.layout import SiteSettings
    from nearcast.site.live_site import run_site
    from nearcast.site.replan_process import ReplanProcess

    standing = None if deployment is None else load_deployment(deployment)
    rules = rules_for_site(processors_for, processor, processor_options, notify_after_sync)
    servers = len(read_scenario(scenario).servers)
    if plan_folder is None:
        _check_method(method, model)
    site_options = SiteSettings(
        plan=plan_folder,
        model=model,
        method=method,
        delay_factor=0.0 if no_delays else delay_factor,
        processor_rules=rules,
        kafka=kafka,
        roaming=standing is not None and standing.roaming,
        deployment=standing,
        group=group,
    )
    with (
        Stop(interrupt_at=1) as stop,
        step_progress(servers + 3, enabled=not as_json) as begin,
    ):
        begin("starting")
        with (
            run_site(scenario, folder or scenario / "site", site_options, begin) as live,
            ExitStack() as beside,
        ):
            begin("enrolling clients")
            clients = live.enrol_clients()
            replanning = None
            if replan_every_s is not None:
                replanning = beside.enter_context(
                    ReplanProcess(live.site, replan_every_s, migration_price_ms)
                )
            if as_json:
                print_json(_summary(live, len(clients)))
            else:
                _print_site(live, len(clients))
            stop.interrupt_at = None  # from now on the site is stopped in order
            _wait(live, replanning, stop, seconds)
    click.echo("the site has stopped", err=True)


def _check_method(method: str, model: str) -> None:
    """Complain now: the manager would when the site is laid out already."""
    from nearcast.domain.plan import Model
    from nearcast.planning.registry import find_method

    find_method(method, Model(model))


def _wait(
    live: LiveSite,
    replanning: ReplanProcess | None,
    stop: Stop,
    seconds: float | None,
) -> None:
    import time

    from nearcast.errors import NearcastError

    end_s = float("inf") if seconds is None else time.monotonic() + seconds
    while not stop.event.wait(min(0.5, max(0.0, end_s - time.monotonic()))):
        if replanning is not None:
            replanning.watch()
        given_up = live.processes.watch()
        if given_up:
            said = live.processes.last_words(given_up[0])
            raise NearcastError(f"server {given_up[0]!r} cannot run: {said}")
        if time.monotonic() >= end_s:
            return


def _summary(live: LiveSite, clients: int) -> dict[str, object]:
    site = live.site
    return {
        "site": str(site.folder),
        "manager": site.manager_url,
        "delay_factor": site.delay_factor,
        "clients": clients,
        "event_log": str(site.event_log),
        "servers": [
            {
                "server": one.server,
                "role": one.role,
                "pid": live.processes.pid(one.server),
                "udp_port": one.port or None,
                "http": f"http://127.0.0.1:{one.http_port}",
            }
            for one in site.servers
        ],
    }


def _print_site(live: LiveSite, clients: int) -> None:
    site = live.site
    rows = [
        (
            one.server,
            one.role,
            str(live.processes.pid(one.server)),
            f"127.0.0.1:{one.port}" if one.port else "-",
            f"http://127.0.0.1:{one.http_port}",
        )
        for one in site.servers
    ]
    print_table(["server", "role", "pid", "clients (UDP)", "metrics, health, status"], rows)
    factor = site.delay_factor
    click.echo(f"delays: {f'emulated x {factor:g}' if factor else 'not emulated'}")
    click.echo(f"{clients} clients enrolled; credentials in {site.folder / 'clients'}")
    click.echo(f"event log: {site.event_log}; what the servers say: {site.folder / 'output'}")
    click.echo(f"next: nearcast status {site.folder}, nearcast client --help; Ctrl-C stops all")

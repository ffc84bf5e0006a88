"""``nearcast apply``: another plan for a running site, and how the switch goes."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.console import json_option, print_json
from nearcast.cli.manager_access import find_manager

__all__ = ["apply"]


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Folder of a site on this machine, or the scenario that `nearcast up` was given.",
)
@click.option("--manager", "manager_url", help="Instead of --site: the manager's http://HOST:PORT.")
@click.option("--token-file", type=click.Path(path_type=Path), help="With --manager: its token.")
@click.option(
    "--timeout-s", default=60.0, show_default=True, help="How long servers may take to have it."
)
@json_option
def apply(
    plan: Path,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Have a running site go by another plan.

    PLAN is a folder that the manager can read. Nothing is lost or processed twice meanwhile; each
    stream that moves pauses until its new server owns it. Ends when all servers have the plan.

    \b
      nearcast apply city-plan --site city
    """
    from nearcast.site.plan_access import ManagerAccess, adopt_plan, wait_for_servers

    manager = ManagerAccess(*find_manager(site, manager_url, token_file))
    version, count = adopt_plan(manager, plan), 0

    def show(done: int, servers: int) -> None:
        nonlocal count
        count = servers
        if not as_json:
            click.echo(f"plan {version}: {done} of {servers} servers have it", err=True)

    result = {"plan_version": version, **wait_for_servers(manager, version, timeout_s, show)}
    if as_json:
        print_json(result)
        return
    click.echo(f"plan {version} is in force on all {count} servers")
    if result["streams"]:
        p50, p99 = 1e3 * result["pause_p50_s"], 1e3 * result["pause_p99_s"]
        click.echo(
            f"{result['streams']} streams handed over; pause p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        )
    else:
        click.echo("no stream has been handed over yet; each is with its next message")

"""``nearcast apply``: another plan for a running site, and how the switch goes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option, print_json
from nearcast.cli.manager_access import find_manager

__all__ = ["apply"]

_LOOK_S = 0.25
_ADOPT_WITHIN_S = 600.0
_REPORT_S = 2.5
"""Servers report every two seconds: after that all have said how long streams paused."""


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
    from nearcast.errors import NearcastError
    from nearcast.links.http_client import ask

    url, token = find_manager(site, manager_url, token_file)
    body = {"plan": str(plan.resolve())}
    version = ask(f"{url}/plans", body, token, timeout_s=_ADOPT_WITHIN_S)["plan_version"]
    end = time.monotonic() + timeout_s
    shown = -1
    while True:
        found = ask(f"{url}/status")
        servers = found["servers"]
        late = [one["id"] for one in servers if one["revision"] < found["revision"]]
        if len(late) != shown and not as_json:
            shown = len(late)
            done = len(servers) - len(late)
            click.echo(f"plan {version}: {done} of {len(servers)} servers have it", err=True)
        if not late:
            break
        if time.monotonic() > end:
            raise NearcastError(
                f"plan {version} is in force, but these servers do not have it yet: "
                + ", ".join(late)
            )
        time.sleep(_LOOK_S)
    time.sleep(_REPORT_S)
    result: dict[str, Any] = {"plan_version": version, **ask(f"{url}/status")["switch"]}
    if as_json:
        print_json(result)
        return
    click.echo(f"plan {version} is in force on all {len(servers)} servers")
    if result["streams"]:
        p50, p99 = 1e3 * result["pause_p50_s"], 1e3 * result["pause_p99_s"]
        click.echo(
            f"{result['streams']} streams handed over; pause p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        )
    else:
        click.echo("no stream has been handed over yet; each is with its next message")

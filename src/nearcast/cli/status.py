"""``nearcast status``: what a running site is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option, print_json, print_table, show_number, show_percent

__all__ = ["status"]


@click.command()
@click.argument("site", type=click.Path(path_type=Path), required=False)
@click.option("--manager", "url", help="The manager's address, http://HOST:PORT, instead of SITE.")
@json_option
def status(site: Path | None, url: str | None, as_json: bool) -> None:
    """Show servers, sessions, load and plan of a running site.

    SITE is the folder of the site, or the scenario that `nearcast up` was given.

    \b
      nearcast status city
      nearcast status --manager http://127.0.0.1:8000 --json
    """
    from nearcast.errors import ConfigError, NearcastError
    from nearcast.links.http_client import ask
    from nearcast.site.layout import SiteFolder

    if (site is None) == (url is None):
        raise ConfigError("give either the folder of the site or --manager URL")
    if site is not None:
        url = SiteFolder.find(site).manager_url
    found = ask(f"{url}/status")
    if not isinstance(found, dict) or not {"counts", "plans", "servers"} <= found.keys():
        raise NearcastError(f"{url} answers, but is not the manager of a site")
    if as_json:
        print_json(found)
        return
    counts, plan = found["counts"], found["plans"][-1]
    print_table(
        [
            "server",
            "state",
            "sessions",
            "topics",
            "storage",
            "compute",
            "local",
            "messages",
            "notifications",
            "lag ms",
        ],
        [_row(one) for one in found["servers"]],
    )
    cost = show_number(plan["cost"])
    click.echo(
        f"{counts['servers_up']} of {counts['servers']} servers up, {counts['sessions']} sessions, "
        f"{counts['clients_enrolled']} clients enrolled; plan version {plan['version']} "
        f"({plan['model']}, {plan['method']}, cost {cost}), revision {found['revision']}"
    )


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    lag_s = one.get("loop_lag_s")
    return (
        one["id"],
        one["state"],
        str(one["sessions"] if one["sessions"] is not None else "-"),
        str(one["topics"] if one["topics"] is not None else "-"),
        _use(one, "storage"),
        _use(one, "compute"),
        show_percent(one.get("local_share"), 0),
        str(one["messages"] if one["messages"] is not None else "-"),
        str(one["notifications"] if one["notifications"] is not None else "-"),
        show_number(None if lag_s is None else 1e3 * lag_s, 1),
    )


def _use(one: dict[str, Any], name: str) -> str:
    used, limit = one.get(f"{name}_used"), one.get(f"{name}_limit")
    if used is None:
        return "-"
    return f"{used:g}" if limit is None else f"{used:g} of {limit:g}"

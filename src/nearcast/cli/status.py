"""``nearcast status``: what a running site is doing."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option, print_json, print_table, show_number, show_percent

__all__ = ["add_losses", "status"]


@click.command()
@click.argument("site", type=click.Path(path_type=Path), required=False)
@click.option(
    "--manager",
    "url",
    help="Instead of SITE: the manager's address, http://HOST:PORT, or that of one server.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Instead of SITE: folder of a standalone server.",
)
@json_option
def status(site: Path | None, url: str | None, data: Path | None, as_json: bool) -> None:
    """Show servers, sessions, load and plan of a running site.

    SITE is the folder of the site, or the scenario that `nearcast up` was given.

    \b
      nearcast status city
      nearcast status --manager http://127.0.0.1:8000 --json
      nearcast status --data broker
    """
    from nearcast.errors import ConfigError, NearcastError
    from nearcast.links.http_client import ask

    if (site, url, data).count(None) != 2:
        raise ConfigError("give the folder of the site, --manager URL or --data DIR")
    folder = None
    if site is not None:
        from nearcast.site.layout import SiteFolder

        folder = SiteFolder.find(site)
        url = folder.manager_url
    elif data is not None:
        from nearcast.site.standalone_folder import StandaloneFolder

        url = StandaloneFolder(data).place().url
    found = ask(f"{url}/status")
    if isinstance(found, dict) and {"server", "role", "sessions", "counts"} <= found.keys():
        _show_server(found, as_json)
        return
    if not isinstance(found, dict) or not {"counts", "plans", "servers"} <= found.keys():
        raise NearcastError(f"{url} answers, but is not the manager of a site")
    if folder is not None:
        add_losses(found["servers"], {one.server: one.http_port for one in folder.servers})
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
            "days left",
        ],
        [_row(one) for one in found["servers"]],
    )
    cost = show_number(plan["cost"])
    click.echo(
        f"{counts['servers_up']} of {counts['servers']} servers up, {counts['sessions']} sessions, "
        f"{counts['clients_enrolled']} clients enrolled; plan version {plan['version']} "
        f"({plan['model']}, {plan['method']}, cost {cost}), revision {found['revision']}"
    )
    for one in found["servers"]:
        if one.get("losses") is not None:
            click.echo(f"losses of {one['id']}: {_named(one['losses'])}")


def add_losses(servers: list[dict[str, Any]], http_ports: Mapping[str, int]) -> None:
    """Add to each server what it says of its losses and tables; nothing when it does not answer."""
    from nearcast.errors import NearcastError
    from nearcast.links.http_client import ask

    for one in servers:
        said: Any = {}
        with contextlib.suppress(NearcastError):
            if one["id"] in http_ports:
                said = ask(f"http://127.0.0.1:{http_ports[one['id']]}/status")
        for name in ("losses", "tables"):
            one[name] = said.get(name) if isinstance(said, dict) else None


def _named(losses: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in losses.items() if value) or "nothing"


def _show_server(found: dict[str, Any], as_json: bool) -> None:
    """Show one server, as it tells itself."""
    if as_json:
        print_json(found)
        return
    counts, lost = found["counts"], found["losses"]
    print_table(
        [
            "server",
            "role",
            "sessions",
            "topics",
            "messages",
            "notifications",
            "revision",
            "days left",
        ],
        [
            (
                found["server"],
                found["role"],
                str(found["sessions"]),
                str(found["topics"]),
                str(counts.get("publications", 0) + counts.get("forwarded_in", 0)),
                str(counts.get("notifications", 0)),
                str(found["revision"]),
                show_number(found.get("credential_days_left"), 0),
            )
        ],
    )
    ring = found.get("ring")
    if ring is not None:
        click.echo(
            f"ring: {ring['keys']} keys, between {ring['left']} and {ring['right']}, "
            f"knows {ring['servers_known']} servers, {ring['repairs']} repairs"
        )
    click.echo(f"losses: {_named(lost)}")


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
        show_number(one.get("credential_days_left"), 0),
    )


def _use(one: dict[str, Any], name: str) -> str:
    used, limit = one.get(f"{name}_used"), one.get(f"{name}_limit")
    if used is None:
        return "-"
    return f"{used:g}" if limit is None else f"{used:g} of {limit:g}"

"""``nearcast flow run|show|move|stop``: flows on a running site, or at a standalone server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.manager_access import find_manager, find_standalone
from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.site.standalone_flows import StandaloneFlows

__all__ = ["move", "run", "show", "stop"]

_END = 1 << 62
"""Indexes are below it."""
_TELL_S, _LOOK_S = 30.0, 0.25
"""How long to wait for servers to begin, and how often to look."""
Decorated = Callable[..., Any]


def _of_site(command: Decorated) -> Decorated:
    """Add the options that say which site or standalone server is meant."""
    for option in (
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="Instead of --site: folder of a standalone server.",
        ),
        click.option("--token-file", type=click.Path(path_type=Path), help="With --manager."),
        click.option("--manager", "manager_url", help="Instead of --site: http://HOST:PORT"),
        click.option(
            "--site",
            type=click.Path(path_type=Path),
            help="Folder of a site on this machine, or the scenario that `nearcast up` was given.",
        ),
    ):
        command = option(command)
    return command


def _standalone(
    data: Path | None, site: Path | None, manager_url: str | None, token_file: Path | None
) -> StandaloneFlows | None:
    """Return the flows of a standalone server; None when it is a site that was named."""
    folder = find_standalone(data, site, manager_url, token_file)
    if folder is None:
        return None
    from nearcast.site.standalone_flows import StandaloneFlows

    return StandaloneFlows(folder)


def _ask(
    data: Path | None,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    path: str,
    body: object = None,
    method: str | None = None,
) -> Any:
    import asyncio

    import msgspec

    from nearcast.links.http_client import ask
    from nearcast.runtime.manager_flows import answer_flows

    alone = _standalone(data, site, manager_url, token_file)
    if alone is not None:
        method = method or ("GET" if body is None else "POST")
        return asyncio.run(answer_flows(alone, method, path, msgspec.json.encode(body)))[1]
    url, token = find_manager(site, manager_url, token_file)
    return ask(f"{url}{path}", body, token, method=method)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--place",
    "places",
    multiple=True,
    metavar="COMPONENT=SERVER",
    help="Where a component begins.  [default: the cloud server, or the standalone one]",
)
@click.option(
    "--by-plan",
    is_flag=True,
    help="Let components begin at the edge server that the plan in force has as the one broker of "
    "what they read, where there is one.",
)
@_of_site
@json_option
def run(file: Path, places: tuple[str, ...], by_plan: bool, as_json: bool, **site: Any) -> None:
    """Start a flow; one of the same name that runs begins anew, without its states.

    Returns when all servers that are up have begun: what is published to them from then on is
    processed. A standalone server that does not run begins with its next start.
    """
    import msgspec

    from nearcast.flow.flow import read_flow

    flow = read_flow(file)
    placed = dict(_split(one) for one in places)
    body = {"flow": msgspec.to_builtins(flow), "places": placed, "by_plan": by_plan}
    found = _ask(**site, path="/flows", body=body, method="PUT")
    late = _wait_until_told(site, found["number"])
    if as_json:
        print_json({**found, "late": late})
        return
    if late:
        click.echo(f"not told yet: {', '.join(late)}", err=True)
    where = ", ".join(f"{name} at {server}" for name, server in found["begins_at"].items())
    click.echo(f"flow {flow.name!r} runs with number {found['number']}: {where}")


@click.command()
@click.argument("name")
@_of_site
@json_option
def stop(name: str, as_json: bool, **site: Any) -> None:
    """End a flow: what its components remember and what is under way to them is dropped."""
    found = _ask(**site, path=f"/flows/{quote(name, safe='')}", method="DELETE")
    if as_json:
        print_json(found)
    else:
        when = f" with revision {found['revision']}" if found["revision"] else ""
        click.echo(f"flow {name!r} ends{when}")


@click.command()
@_of_site
@json_option
def show(as_json: bool, **site: Any) -> None:
    """Draw the flows of a site or server: components, places, ranges of indexes, rates, queues, events."""
    flows = _ask(**site, path="/flows")
    if as_json:
        print_json({"flows": flows})
        return
    if not flows:
        click.echo("no flow runs")
    for flow in flows:
        click.echo(f"flow {flow['name']!r}, number {flow['number']}")
        for name, one in flow["components"].items():
            click.echo(
                f"  {', '.join(one['inputs'])} -> {name} ({one['processor']}) -> {one['output']}"
            )
        print_table(
            [
                *("component", "server", "indexes", "msg/s", "processed", "queued", "outgoing"),
                *("mapping errors", "moves"),
            ],
            [
                _row(name, place)
                for name, one in flow["components"].items()
                for place in one["places"]
            ],
        )
        for event in flow["events"]:
            click.echo(f"  {_time_of(event['at_s'])} {event['server']}: {event['what']}")


@click.command()
@click.argument("name")
@click.argument("component")
@click.option("--from", "giver", required=True, help="The server that has the part.")
@click.option("--to", "taker", required=True, help="The server that gets it.")
@click.option("--low", type=click.IntRange(0, _END), help="First index.  [default: all it has]")
@click.option("--high", type=click.IntRange(0, _END), help="End of the indexes, not with it.")
@click.option("--half", is_flag=True, help="The lower half of the widest range that it has.")
@_of_site
@json_option
def move(
    name: str,
    component: str,
    giver: str,
    taker: str,
    low: int | None,
    high: int | None,
    half: bool,
    as_json: bool,
    **site: Any,
) -> None:
    """Hand a part of a component's indexes over to another server, with its state.

    Messages go on meanwhile; `nearcast flow show` tells when it is there, or why it was refused.
    """
    if (low is None) != (high is None) or (half and low is not None):
        raise click.UsageError("give --low and --high, --half, or none of them")
    alone = _standalone(**site)
    if alone is not None:
        alone.refuse_moves()
    parts: list[dict[str, Any]] = [{"net": None, "low": low, "high": high}]
    if low is None:
        parts = _parts_of(_ask(**site, path="/flows"), name, component, giver)
    if half:
        widest = max(parts, key=lambda one: one["high"] - one["low"])
        middle = (widest["low"] + widest["high"]) // 2
        parts = [{**widest, "high": middle}]
    for part in parts:
        body = {"component": component, "giver": giver, "taker": taker, **part}
        _ask(**site, path=f"/flows/{quote(name, safe='')}/moves", body=body)
    if as_json:
        print_json({"moved": parts})
    else:
        ranges = ", ".join(map(_range, parts))
        click.echo(f"{giver} hands {ranges} of {component!r} over to {taker}")


def _wait_until_told(site: dict[str, Any], revision: int) -> list[str]:
    """Return the servers that are up and have not heard of a revision after a while."""
    alone = _standalone(**site)
    if alone is not None:
        return alone.wait_until_told(revision)
    until_s = time.monotonic() + _TELL_S
    while True:
        servers = _ask(**site, path="/status")["servers"]
        up = [one for one in servers if one["state"] == "up"]
        late = [one["id"] for one in up if one["revision"] < revision]
        if not late or time.monotonic() > until_s:
            return late
        time.sleep(_LOOK_S)


def _split(text: str) -> tuple[str, str]:
    component, equals, server = text.partition("=")
    if not component or not equals or not server:
        raise ConfigError(f"--place {text!r}: give COMPONENT=SERVER")
    return component, server


def _parts_of(
    flows: list[dict[str, Any]], name: str, component: str, giver: str
) -> list[dict[str, Any]]:
    """Return what a server holds of a component."""
    parts = [
        part
        for flow in flows
        if flow["name"] == name
        for place in flow["components"].get(component, {"places": []})["places"]
        if place["server"] == giver
        for part in place["parts"]
    ]
    if not parts:
        raise ConfigError(f"server {giver!r} holds nothing of {component!r} in flow {name!r}")
    return parts


def _row(name: str, place: dict[str, Any]) -> tuple[str, ...]:
    moves = ", ".join(f"{_range(one['part'])} to {one['to']}" for one in place["under_way"])
    return (
        name,
        place["server"],
        place["refusal"] or ", ".join(map(_range, place["parts"])) or "-",
        f"{place['per_s']:g}",
        str(place["processed"]),
        str(place["queued"]),
        str(place["outgoing"]),
        str(place["mapping_errors"]),
        moves or "-",
    )


def _time_of(at_s: float) -> str:
    """Return when something happened, by this machine's clock and time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def _range(part: dict[str, Any]) -> str:
    """Return a range in percent of all indexes."""
    low, high = 100 * part["low"] / _END, 100 * part["high"] / _END
    net = "" if part["net"] is None else f" of {part['net'] or 'the cloud'}"
    return f"{low:g}..{high:g} %{net}"

"""``nearcast serve standalone``: a broker in one minute."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nearcast.cli.console import json_option, print_json
from nearcast.cli.group_options import group_option
from nearcast.cli.kafka_options import log_to_kafka_options
from nearcast.cli.processor_options import (
    notify_after_sync_option,
    processor_for_option,
    processor_option,
    processor_options_option,
    rules_for_site,
)

if TYPE_CHECKING:
    from nearcast.links.kafka_settings import KafkaSettings
    from nearcast.site.standalone_folder import StandalonePlace
    from nearcast.trust.site_plane import SitePlane
    from nearcast.wire.group_settings import GroupSettings

__all__ = ["advertise_option", "exit_for_restart", "standalone"]

_PORT = click.IntRange(0, 65_535)
_RULES = ("processor", "processor_options", "processors_for", "notify_after_sync")
"""Without any of these options processors stay as they were."""


advertise_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--advertise",
    is_flag=True,
    help="Tell the local network by multicast that the server is here, for clients that look for "
    "it: --discover mdns.",
)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of key, clients and messages; made at the first start, kept between starts.",
)
@click.option("--id", "server", help="Its name.  [default: as last time, standalone at first]")
@click.option("--host", help="Address to listen at.  [default: as last time, 127.0.0.1 at first]")
@click.option(
    "--public-host",
    help="The address that clients are told, when it is not --host.",
)
@click.option(
    "--port",
    type=_PORT,
    help="UDP port for clients; 0: any free one.  [default: as last time, 7400 at first]",
)
@click.option(
    "--http-port",
    type=_PORT,
    help="TCP port on 127.0.0.1 for health, status, metrics; 0: any free one.  "
    "[default: as last time, 7480 at first]",
)
@processor_option
@processor_options_option
@processor_for_option
@notify_after_sync_option
@click.option(
    "--inline-processor",
    "inline",
    multiple=True,
    metavar="NAME",
    help="A processor of your own that you trust to run in the server's loop: quicker, but one "
    "that hangs for 10 s ends the server; started again, it runs that one outside its loop. "
    "May be repeated.",
)
@log_to_kafka_options
@click.option(
    "--origin",
    metavar="LON,LAT",
    help="Where on the earth (0, 0) is: clients that are enrolled from then on may count in "
    "degrees.  [default: as last time]",
)
@advertise_option
@group_option("")
@click.option("--session-limit", type=click.IntRange(min=1), help="Most clients at a time.")
@click.option("--parent-fd", type=int, hidden=True)
@json_option
@click.pass_context
def standalone(
    ctx: click.Context,
    data: Path,
    server: str | None,
    host: str | None,
    public_host: str | None,
    port: int | None,
    http_port: int | None,
    processor: str,
    processor_options: str,
    processors_for: tuple[str, ...],
    notify_after_sync: bool,
    inline: tuple[str, ...],
    kafka: KafkaSettings | None,
    origin: str | None,
    advertise: bool,
    group: GroupSettings | None,
    session_limit: int | None,
    parent_fd: int | None,
    as_json: bool,
) -> None:
    """Run one server on its own: no scenario, no manager, no cloud server.

    Topics come into being when they are used. Processors stay as they were at the last start unless
    an option names others; `nearcast processors set --data` changes them while the server runs.
    Clients are enrolled by a command on this machine:

    \b
      nearcast serve standalone --data broker
    and in other terminals:
    \b
      nearcast client enrol sign --data broker --out sign.json
      nearcast client enrol car --data broker --out car.json
      nearcast client subscribe --credentials sign.json --topic road
      nearcast client publish --credentials car.json --topic road --message hello
      nearcast status --data broker
    """
    import logging

    from nearcast.runtime.logs import start_logging
    from nearcast.site.standalone import StandaloneSettings, serve_standalone
    from nearcast.site.standalone_folder import StandaloneFolder

    rules = None
    if any(ctx.get_parameter_source(name) is not ParameterSource.DEFAULT for name in _RULES):
        rules = rules_for_site(processors_for, processor, processor_options, notify_after_sync)
    folder = StandaloneFolder(data)
    before = folder.place() if folder.has_place() else None
    start_logging(
        server or (before.server if before is not None else "standalone"),
        level=logging.INFO if ctx.find_root().params.get("verbose") else logging.WARNING,
    )

    def on_ready(place: StandalonePlace) -> None:
        clients = len(folder.clients())
        if as_json:
            print_json(_summary(data, place, clients))
        else:
            _print_place(data, place, clients)
        if before is not None and clients and _address(before) != _address(place):
            click.echo(
                f"warning: {clients} clients were enrolled for {_address(before)}:"
                " enrol them again, or start with the old address",
                err=True,
            )

    options = StandaloneSettings(
        host,
        public_host,
        port,
        http_port,
        rules,
        inline,
        session_limit,
        server,
        kafka,
        _plane(origin),
        advertise,
        group,
    )
    with exit_for_restart():
        serve_standalone(folder, options, on_ready, parent_fd)
    click.echo("the server has stopped", err=True)


def _plane(origin: str | None) -> SitePlane | None:
    from nearcast.errors import ConfigError, TrustError
    from nearcast.trust.site_plane import plane_of_extra

    if origin is None:
        return None
    try:
        longitude, latitude = map(float, origin.split(","))
        return plane_of_extra({"latitude": latitude, "longitude": longitude})
    except (ValueError, TrustError) as error:
        raise ConfigError(f"--origin {origin!r:.40}: is LON,LAT in degrees: {error}") from None


@contextmanager
def exit_for_restart() -> Iterator[None]:
    """End the process with code 1 when a new start should help."""
    from nearcast.errors import RestartNeededError

    try:
        yield
    except RestartNeededError as error:
        click.echo(f"error: {error}", err=True)
        sys.stderr.flush()
        os._exit(1)  # a thread that is stuck must not hold up the new start


def _address(place: StandalonePlace) -> str:
    return f"{place.public_host}:{place.port}"


def _summary(data: Path, place: StandalonePlace, clients: int) -> dict[str, object]:
    return {
        "data": str(data),
        "pid": os.getpid(),
        "address": _address(place),
        "http": place.url,
        "public_key": place.public_key,
        "clients": clients,
    }


def _print_place(data: Path, place: StandalonePlace, clients: int) -> None:
    click.echo(f"clients: {_address(place)} (UDP), {clients} enrolled")
    click.echo(f"health, status, metrics: {place.url}")
    click.echo("next, in other terminals:")
    for name in ("sign", "car"):
        click.echo(f"  nearcast client enrol {name} --data {data} --out {name}.json")
    click.echo("  nearcast client subscribe --credentials sign.json --topic road")
    click.echo("  nearcast client publish --credentials car.json --topic road --message hello")
    click.echo(f"Ctrl-C stops the server; {data} keeps clients and messages")

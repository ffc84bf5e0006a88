"""``nearcast serve``: one server of a site, in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.serve_standalone import advertise_option, exit_for_restart, standalone

__all__ = ["serve"]

_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    help="The server's TOML file; docs/site.md explains its keys.",
)


@click.group()
def serve() -> None:
    """Run one server of a site until Ctrl-C or SIGTERM.

    Logs go to stderr as JSON lines. Metrics, health and status are served over HTTP as the
    configuration says. `nearcast up` writes configurations and runs a whole site. Exit codes:
    0 stopped as asked, 1 something broke under it and a new start should help, 2 its input.

    \b
      nearcast serve manager --config manager.toml
      nearcast serve edge --config e1.toml

    One server without any site, to try it:

    \b
      nearcast serve standalone --data broker
    """


def _run(config_file: Path, role: str, *, advertise: bool = False) -> None:
    from nearcast.runtime.serve import serve as run

    with exit_for_restart():
        run(config_file, role, advertise=advertise)


@serve.command()
@_config_option
def manager(config_file: Path) -> None:
    """Run the manager: keeps servers, clients and plans, and tells the servers."""
    _run(config_file, "manager")


@serve.command()
@_config_option
@advertise_option
def edge(config_file: Path, advertise: bool) -> None:
    """Run an edge server: the home of clients, with brokers."""
    _run(config_file, "edge", advertise=advertise)


@serve.command()
@_config_option
def cloud(config_file: Path) -> None:
    """Run the cloud server: takes what edge servers cannot hold."""
    _run(config_file, "cloud")


serve.add_command(standalone)

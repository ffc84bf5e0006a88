"""``nearcast scenario``: generate, import and show scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option, print_json, print_table, show_number
from nearcast.cli.options import format_option, out_option, overwrite_option, seed_option
from nearcast.cli.scenario_import import import_scenario
from nearcast.cli.scenario_output import describe, written
from nearcast.domain.tables import TableFormat

__all__ = ["scenario"]


@click.group()
def scenario() -> None:
    """Generate, import or show a scenario.

    A scenario is a folder: scenario.json and the tables servers, clients, topics and members, each
    as CSV or Parquet; optionally measured delays in client_server_ms and server_server_ms.
    """


@scenario.group()
def generate() -> None:
    """Generate a scenario; the same seed gives the same bytes.

    \b
      reloc2020      RELOC 2020's setting: 100 servers, limits on storage and clients
      reloc2021      RELOC 2021's setting: 16 servers, limits on storage and compute
      placement2022  broker placement 2022: 30 clients, 7 servers, 6 topics with deadlines
      city           hot spots, roads, servers of uneven size, mixed roles
    """


@generate.command("reloc2020")
@click.option("--ratio", type=float, default=0.52, show_default=True, help="Requirement ratio.")
@seed_option
@out_option
@format_option
@overwrite_option
@json_option
def generate_2020(
    ratio: float, seed: int, out: Path, table_format: TableFormat, overwrite: bool, as_json: bool
) -> None:
    """RELOC 2020: plan it with --model connections."""
    from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020

    made = generate_reloc2020(Reloc2020(ratio=ratio), seed)
    written(made, out, table_format, overwrite, as_json)


@generate.command("reloc2021")
@click.option("--sigma", type=float, default=5.0, show_default=True, help="Spread of a topic, km.")
@click.option(
    "--spool-per-member", type=float, default=2.0, show_default=True, help="p: spool per member."
)
@click.option("--topics", type=int, default=64, show_default=True, help="Number of topics.")
@click.option(
    "--overlap", type=float, default=0.03, show_default=True, help="Chance of a known client."
)
@click.option(
    "--members-per-topic", type=float, default=14.3, show_default=True, help="Mean topic size."
)
@click.option(
    "--servers-per-side", type=int, default=4, show_default=True, help="Side of the server grid."
)
@seed_option
@out_option
@format_option
@overwrite_option
@json_option
def generate_2021(
    sigma: float,
    spool_per_member: float,
    topics: int,
    overlap: float,
    members_per_topic: float,
    servers_per_side: int,
    seed: int,
    out: Path,
    table_format: TableFormat,
    overwrite: bool,
    as_json: bool,
) -> None:
    """RELOC 2021: plan it with --model ratio."""
    from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021

    parameters = Reloc2021(
        sigma_km=sigma,
        spool_per_member=spool_per_member,
        topics=topics,
        overlap=overlap,
        members_per_topic=members_per_topic,
        servers_per_side=servers_per_side,
    )
    written(generate_reloc2021(parameters, seed), out, table_format, overwrite, as_json)


@generate.command("placement2022")
@seed_option
@out_option
@format_option
@overwrite_option
@json_option
def generate_2022(
    seed: int, out: Path, table_format: TableFormat, overwrite: bool, as_json: bool
) -> None:
    """Broker placement 2022: plan it with --model placement."""
    from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022

    made = generate_placement2022(Placement2022(), seed)
    written(made, out, table_format, overwrite, as_json)


@generate.command("city")
@click.option("--clients", type=int, default=2000, show_default=True, help="Number of clients.")
@click.option("--servers", type=int, default=25, show_default=True, help="Number of edge servers.")
@click.option("--topics", type=int, default=200, show_default=True, help="Number of topics.")
@seed_option
@out_option
@format_option
@overwrite_option
@json_option
def generate_a_city(
    clients: int,
    servers: int,
    topics: int,
    seed: int,
    out: Path,
    table_format: TableFormat,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Build a city: hot spots, roads, uneven servers; plan it with any model."""
    from nearcast.domain.generators.city import City, generate_city

    made = generate_city(City(clients=clients, servers=servers, topics=topics), seed)
    written(made, out, table_format, overwrite, as_json)


@scenario.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def show(folder: Path, as_json: bool) -> None:
    """Show what a scenario holds and how tight it is."""
    from nearcast.domain.scenario_files import read_scenario

    made = read_scenario(folder)
    facts = describe(made)
    if as_json:
        print_json(facts)
        return
    click.echo(f"{facts['name']}: {facts['width_km']:.1f} x {facts['height_km']:.1f} km")
    rows = [[name.replace("_", " "), _show(value)] for name, value in facts.items()]
    print_table(["property", "value"], [row for row in rows if row[0] != "name"])


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return show_number(value, 3)
    return f"{value:,}" if isinstance(value, int) else str(value)


scenario.add_command(import_scenario)

"""``nearcast scenario import``: from what people have to a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option
from nearcast.cli.options import format_option, out_option, overwrite_option, seed_option
from nearcast.cli.scenario_output import written
from nearcast.domain.scenario import Scenario
from nearcast.domain.tables import TableFormat
from nearcast.errors import ConfigError

__all__ = ["import_scenario"]


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["follows", "sites", "publications"]),
    required=True,
    help="What FILE holds.",
)
@click.option("--topics", type=int, help="follows, sites: number of topics.  [default: see above]")
@click.option("--spool-per-member", type=float, help="Spool of a topic per member.  [default: 2]")
@click.option("--storage", type=float, help="Storage of each server.  [default: made to matter]")
@click.option("--compute", type=float, help="Compute of each server.  [default: made to matter]")
@click.option("--min-members", type=int, help="follows: smallest topic.  [default: 10]")
@click.option("--max-members", type=int, help="follows: largest topic.  [default: 21]")
@click.option(
    "--max-topics-per-client",
    type=int,
    help="follows: pass over followers that put a client into more; 0: no limit.  [default: 4]",
)
@click.option("--sample", is_flag=True, help="follows: take followers by chance, not the first.")
@click.option(
    "--sigma", "sigma_km", type=float, help="follows: spread of a topic, km.  [default: 5]"
)
@click.option(
    "--field", "field_km", type=float, help="follows: side of the field, km.  [default: 25]"
)
@click.option(
    "--servers-per-side", type=int, help="follows: side of the server grid.  [default: 4]"
)
@click.option(
    "--users", type=click.Path(path_type=Path), help="sites: file with the clients' positions."
)
@click.option("--locality", type=float, help="sites: share of near members.  [default: 0.8]")
@click.option("--members-per-topic", type=float, help="sites: on average.  [default: 14]")
@click.option(
    "--sites",
    type=click.Path(path_type=Path),
    help="publications: file with the servers' positions.",
)
@seed_option
@out_option
@format_option
@overwrite_option
@json_option
def import_scenario(
    file: Path,
    kind: str,
    users: Path | None,
    sites: Path | None,
    seed: int,
    out: Path,
    table_format: TableFormat,
    overwrite: bool,
    as_json: bool,
    sample: bool,
    max_topics_per_client: int | None,
    **options: Any,
) -> None:
    """Make a scenario from FILE.

    follows: lines of follower and followee (tab, blank or comma between; # comments; gzip is read as
    it is). One topic per follower with enough followees, as in the papers. Default: all that pass.

    sites: a CSV with latitude and longitude columns becomes the servers, --users another one the
    clients; both are projected to kilometres. Default: a topic for every ten clients.

    publications: a log (CSV, JSON lines or Parquet) with topic, client, time and a position; who
    published becomes a member at the rate seen, placed at the median of its positions. Servers come
    from --sites or a grid of --servers-per-side.

    \b
      nearcast scenario import soc-Epinions1.txt.gz --format follows --topics 64 --out epinions
      nearcast scenario import sites.csv --format sites --users users.csv --out melbourne
    """
    given = {name: value for name, value in options.items() if value is not None}
    if sample:
        given["sample"] = True
    if max_topics_per_client is not None:
        given["max_topics_per_client"] = max_topics_per_client or None
    made = _import(kind, file, users, sites, given, seed)
    written(made, out, table_format, overwrite, as_json)


def _import(
    kind: str, file: Path, users: Path | None, sites: Path | None, given: dict[str, Any], seed: int
) -> Scenario:
    if kind == "follows":
        from nearcast.domain.imports.follows import FollowsParams, import_follows

        _refuse_others(kind, users=users, sites=sites)
        return import_follows(file, _parameters(FollowsParams, kind, given), seed)
    if kind == "sites":
        from nearcast.domain.imports.sites import SitesParams, import_sites

        _refuse_others(kind, sites=sites)
        return import_sites(file, users, _parameters(SitesParams, kind, given), seed)
    from nearcast.domain.imports.publications import PublicationsParams, import_publications

    _refuse_others(kind, users=users)
    if "spool_per_member" in given:
        given["spool_per_publisher"] = given.pop("spool_per_member")
    return import_publications(file, sites, _parameters(PublicationsParams, kind, given), seed)


def _refuse_others(kind: str, **files: Path | None) -> None:
    for name, value in files.items():
        if value is not None:
            raise ConfigError(f"--{name} does not go with --format {kind}")


def _parameters(parameters: Any, kind: str, given: dict[str, Any]) -> Any:
    """Return the parameters of an import; an option that it does not know is the user's slip."""
    for name in given:
        if name not in parameters.__dataclass_fields__:
            option = name.removesuffix("_km").replace("_", "-")
            raise ConfigError(f"--{option} does not go with --format {kind}")
    return parameters(**given)

"""``nearcast client enrol``: a key for a client, signed by its site."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.client_options import lines_option, timeout_option
from nearcast.cli.manager_access import find_authority, find_manager, find_standalone

__all__ = ["enrol"]


@click.command()
@click.argument("name", required=False)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of a standalone server.")
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Instead of --data: folder of a site on this machine, or the scenario that `nearcast up` was given.",
)
@click.option("--manager", "manager_url", help="Instead of both: http://HOST:PORT")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="With --manager: file with its token."
)
@click.option(
    "--authority",
    help="With --manager: public key of the site's authority, 64 hex digits or a file with them.",
)
@click.option(
    "--publish", "publishes", multiple=True, metavar="PATTERN", help="Topics; repeatable."
)
@click.option("--subscribe", "subscribes", multiple=True, metavar="PATTERN", help="Topics.")
@click.option("--class", "classes", multiple=True, metavar="CLASS", help="Urgent ones it may use.")
@click.option("--days", type=float, help="How long the credential counts.  [default: as the site]")
@click.option("--id", "id_", help="The client's id, instead of NAME.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file; the key in it is lost.")
@click.option("--x-km", type=float, help="Where the client is.")
@click.option("--y-km", type=float)
@timeout_option
@lines_option
def enrol(
    name: str | None,
    data: Path | None,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    authority: str | None,
    publishes: tuple[str, ...],
    subscribes: tuple[str, ...],
    classes: tuple[str, ...],
    days: float | None,
    id_: str | None,
    out: Path,
    overwrite: bool,
    x_km: float | None,
    y_km: float | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Make a key, have the site sign it, and write the client's credentials.

    Without --publish and --subscribe it may do what the site grants everybody; at a standalone
    server all. A client that is not in the scenario of the site needs its place: --x-km and --y-km.
    What a manager answers is believed only if the site's authority has signed it. For a standalone
    server, which notices within a second:

    \b
      nearcast client enrol bus --data broker --out bus.json
    """
    from nearcast.cli.client_lines import print_line
    from nearcast.errors import OutputError
    from nearcast.sdk.credentials import save_credentials
    from nearcast.sdk.enrolment import enrol as enrol_client
    from nearcast.trust.credentials import CLIENT_DAYS
    from nearcast.trust.rights import EVERYTHING, Rights

    if (x_km is None) != (y_km is None):
        raise click.UsageError("--x-km and --y-km go together")
    if out.exists() and not overwrite:
        raise OutputError(f"{out}: exists already; --overwrite replaces it and the key in it")
    client_id = name or id_
    if client_id is None or (name and id_):
        raise click.UsageError("name the client once: NAME, or --id NAME")
    rights = Rights(publishes, subscribes, classes=classes) if publishes or subscribes else None
    folder = find_standalone(data, site, manager_url, token_file)
    if folder is not None:
        (found,) = folder.enrol([client_id], x_km, y_km, rights or EVERYTHING, days or CLIENT_DAYS)
    else:
        key = find_authority(site, authority)
        manager_url, token = find_manager(site, manager_url, token_file)
        found = enrol_client(
            manager_url,
            client_id,
            token,
            key,
            x_km=x_km,
            y_km=y_km,
            rights=rights,
            days=days,
            timeout_s=timeout_s,
        )
    save_credentials(found, out, overwrite=overwrite)
    host, port = found.home.address
    if as_json:
        print_line({"client": found.client, "credentials": str(out), "home": f"{host}:{port}"})
    else:
        click.echo(f"{found.client}: home is {host}:{port}; credentials: {out}")

"""``nearcast site``: keys and credentials of a site, issued, renewed and revoked."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearcast.cli.console import json_option, print_json, print_table

if TYPE_CHECKING:
    from nearcast.site.authority import Authority
    from nearcast.site.credential_register import Issued
    from nearcast.wire.actions import Home

__all__ = ["site"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_site_option: Decorator = click.option(
    "--site",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the authority: as `nearcast site init` was given, a site, or its scenario.",
)
_key_option: Decorator = click.option(
    "--authority-key",
    "key_file",
    type=click.Path(path_type=Path),
    help="The authority's private key.  [default: authority.key in the folder]",
)
_days_option: Decorator = click.option(
    "--days", type=float, help="How long it counts.  [default: 365 for clients, 730 for servers]"
)


@click.group()
def site() -> None:
    """Say who belongs to a site: its authority signs credentials of servers and clients.

    Servers need the authority's public key only; its private key may be kept elsewhere and be
    shown by --authority-key when something is to be signed. `nearcast up` does all of this by
    itself. docs/keys.md: what is secret, rotation, backup.

    \b
      nearcast site init city-keys
      nearcast site server manager --role manager --site city-keys
      nearcast site server e1 --role edge --site city-keys
      nearcast site client car --site city-keys --publish 'traffic/#' --via e1=10.0.0.5:7000 --out car.json
      nearcast site revoke client car --site city-keys
      nearcast site show --site city-keys
    """


@site.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def init(folder: Path, as_json: bool) -> None:
    """Make an authority: a key pair, authority.key (secret) and authority.pub.

    \b
      nearcast site init city-keys
    """
    from nearcast.site.authority import Authority

    found = Authority.create(folder)
    if as_json:
        print_json({"folder": str(folder), "authority": found.public_key.hex()})
    else:
        click.echo(f"authority {found.public_key.hex()}")
        click.echo(f"{found.key_file} is secret: whoever has it may sign for this site")


@site.command()
@click.argument("server_id", metavar="ID")
@click.option("--role", type=click.Choice(["edge", "cloud", "manager"]), required=True)
@_days_option
@_site_option
@_key_option
@json_option
def server(
    server_id: str,
    role: Any,
    days: float | None,
    folder: Path,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Issue a server's credential; its keys are made if there are none.

    Writes keys/ID.key and credentials/ID.hex, for a manager keys/ID.signing too: copy these to the
    server, and name them in its configuration.

    \b
      nearcast site server e1 --role edge --site city-keys
    """
    from nearcast.trust.credentials import SERVER_DAYS

    authority = _authority(folder, key_file)
    authority.server(server_id, role, days or SERVER_DAYS, time.time())
    _say_server(authority, server_id, as_json)


@site.command()
@click.argument("client_id", metavar="ID")
@click.option(
    "--publish", "publishes", multiple=True, metavar="PATTERN", help="Topics; repeatable."
)
@click.option("--subscribe", "subscribes", multiple=True, metavar="PATTERN", help="Topics.")
@click.option("--rate", type=click.FloatRange(0), default=0.0, help="Most messages per second.")
@click.option("--payload", type=click.IntRange(0), default=0, help="Most bytes of a message.")
@click.option("--topics", type=click.IntRange(0), default=0, help="Most topics it may bring up.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS",
    help="Urgent message classes that it may use, * for all; repeatable.",
)
@click.option(
    "--via",
    "ways",
    multiple=True,
    metavar="ID=HOST:PORT",
    help="Edge server to connect to, the first one first.  [default: all of a site that"
    " `nearcast up` laid out]",
)
@_days_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file; the key in it is lost.")
@_site_option
@_key_option
@json_option
def client(
    client_id: str,
    publishes: tuple[str, ...],
    subscribes: tuple[str, ...],
    rate: float,
    payload: int,
    topics: int,
    classes: tuple[str, ...],
    ways: tuple[str, ...],
    days: float | None,
    out: Path,
    overwrite: bool,
    folder: Path,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Make a client's key, issue its credential, and write both to a file for `nearcast client`.

    It may publish and subscribe to what the patterns say (+ stands for one level, # at the end for
    all that follow), and to nothing without any. A client that has a credential gets a new key; the
    old one no longer counts.

    \b
      nearcast site client car --site city-keys --publish 'traffic/#' --via e1=10.0.0.5:7000 --out car.json
    """
    from nearcast.site.client_files import make_client_file, ways_into
    from nearcast.trust.credentials import CLIENT_DAYS
    from nearcast.trust.rights import Rights

    rights = Rights(publishes, subscribes, rate, payload, topics, classes)
    authority = _authority(folder, key_file)
    make_client_file(
        authority,
        client_id,
        rights,
        ways_into(authority, ways),
        days or CLIENT_DAYS,
        time.time(),
        out,
        overwrite=overwrite,
    )
    _say_client(authority, client_id, out, as_json)


@site.command()
@click.argument("kind", type=click.Choice(["client", "server"]))
@click.argument("name", metavar="ID")
@click.option(
    "--site",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the authority; the site's manager notices within a second.",
)
@_key_option
@click.option("--manager", "manager_url", help="Instead of --site: http://HOST:PORT")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="With --manager: file with its token."
)
@json_option
def revoke(
    kind: Any,
    name: str,
    folder: Path | None,
    key_file: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Let no credential count that a client or server has got so far; its sessions end.

    With --site the signed list is written, and the manager of the site takes it from there, at once
    or when it starts. With --manager, or when the authority's key is elsewhere, the manager signs.
    All servers know it within 5 s. `renew` and `client` make a credential that counts again.

    \b
      nearcast site revoke client car --site city-keys
      nearcast site revoke client car --manager http://10.0.0.2:7480 --token-file operate.token
    """
    from nearcast.cli.manager_access import find_manager
    from nearcast.links.http_client import ask

    authority = _authority(folder, key_file) if folder is not None else None
    if authority is not None and authority.has_key():
        version, by = authority.revoke(kind, name, time.time()).version, "authority"
    else:
        url, token = find_manager(folder, manager_url, token_file)
        answer = ask(f"{url}/revocations", {"kind": kind, "name": name}, token)
        version, by = answer["version"], "manager"
    if as_json:
        print_json({"kind": kind, "name": name, "version": version, "signed_by": by})
    else:
        click.echo(f"{kind} {name} is revoked: list {version}, signed by the {by}")


@site.command()
@click.argument("kind", type=click.Choice(["client", "server"]))
@click.argument("name", metavar="ID")
@click.option("--new-key", is_flag=True, help="Replace the key too; the old one no longer counts.")
@_days_option
@click.option(
    "--credentials",
    type=click.Path(path_type=Path),
    help="A client's file, to be renewed in its place.",
)
@_site_option
@_key_option
@json_option
def renew(
    kind: str,
    name: str,
    new_key: bool,
    days: float | None,
    credentials: Path | None,
    folder: Path,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Issue a credential anew, with the rights or the role that it had.

    \b
      nearcast site renew server e1 --site city-keys
      nearcast site renew client car --new-key --credentials car.json --site city-keys
    """
    from nearcast.site.client_files import renew_client_file
    from nearcast.trust.credentials import CLIENT_DAYS, SERVER_DAYS

    authority = _authority(folder, key_file)
    if kind == "server":
        role = authority.register.known("server", name).server().role
        authority.server(name, role, days or SERVER_DAYS, time.time(), new_key=new_key)
        _say_server(authority, name, as_json)
        return
    if credentials is None:
        raise click.UsageError("a client's file is needed: --credentials FILE")
    renew_client_file(
        authority, name, days or CLIENT_DAYS, time.time(), credentials, new_key=new_key
    )
    _say_client(authority, name, credentials, as_json)


@site.command()
@_site_option
@json_option
def show(folder: Path, as_json: bool) -> None:
    """Show what the authority has issued and revoked.

    \b
      nearcast site show --site city-keys
    """
    authority = _authority(folder, None)
    revoked = authority.revocations()
    least = {(one.kind, one.name): one.least_serial for one in revoked.entries}
    now_s = time.time()
    rows = [
        _about(one, least.get((one.kind, one.name), 0), now_s) for one in authority.register.all()
    ]
    if as_json:
        entries = [{"kind": one.kind, "name": one.name} for one in revoked.entries]
        print_json(
            {
                "authority": authority.public_key.hex(),
                "has_key": authority.has_key(),
                "credentials": rows,
                "revocations": {"version": revoked.version, "entries": entries},
            }
        )
        return
    where = "here" if authority.has_key() else "elsewhere"
    click.echo(f"authority {authority.public_key.hex()}; its private key is {where}")
    table = [(one["name"], one["kind"], one["what"], one["until"], one["state"]) for one in rows]
    print_table(["id", "kind", "may", "until", "state"], table)
    click.echo(f"revocations: list {revoked.version}, {len(revoked.entries)} entries")


@site.command()
@click.option("--domain", required=True, help="In which clients look: --discover dns:DOMAIN.")
@click.option(
    "--via",
    "ways",
    multiple=True,
    metavar="ID=HOST:PORT",
    help="Edge server.  [default: all of a site that `nearcast up` laid out]",
)
@_site_option
@json_option
def dns(domain: str, ways: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Print the lines of a zone file by which clients find the edge servers of a site.

    SRV records say where they are, TXT records what the authority signed about them.

    \b
      nearcast site dns --site city-keys --domain city.example --via e1=10.0.0.5:7000
    """
    from nearcast.links.dns_servers import zone_lines
    from nearcast.site.client_files import ways_into

    homes = ways_into(_authority(folder, None), ways)
    servers = [(_server_id(one), *one.address, one.credential) for one in homes]
    lines = zone_lines(domain.strip("."), servers)
    if as_json:
        print_json({"lines": lines})
        return
    for line in lines:
        click.echo(line)


def _server_id(home: Home) -> str:
    from nearcast.trust.credentials import ServerCredential, read_body
    from nearcast.trust.signed import read_signed

    return read_body(read_signed(home.credential).body, ServerCredential).server


def _authority(folder: Path, key_file: Path | None) -> Authority:
    from nearcast.site.authority import Authority

    nested = folder / "site"
    found = nested if (nested / "authority.pub").exists() else folder
    return Authority(found, key_file)


def _about(issued: Issued, least_serial: int, now_s: float) -> dict[str, Any]:
    if issued.kind == "server":
        what: str = issued.server().role
    else:
        rights = issued.client().rights
        publish, subscribe = " ".join(rights.publish), " ".join(rights.subscribe)
        what = f"publish {publish or 'nothing'}, subscribe {subscribe or 'nothing'}"
    state = "expired" if issued.until_s <= now_s else "counts"
    return {
        "kind": issued.kind,
        "name": issued.name,
        "serial": issued.serial,
        "what": what,
        "until": time.strftime("%Y-%m-%d", time.gmtime(issued.until_s)),
        "state": "revoked" if issued.serial < least_serial else state,
    }


def _say_server(authority: Authority, name: str, as_json: bool) -> None:
    about = _about(authority.register.known("server", name), 0, time.time())
    files = [authority.server_key_file(name), authority.credential_file(name)]
    if about["what"] == "manager":
        files.append(authority.signing_key_file(name))
    if as_json:
        print_json({**about, "files": [str(one) for one in files]})
    else:
        click.echo(f"{name}: {about['what']} server until {about['until']}; for its machine:")
        for file in files:
            click.echo(f"  {file}")


def _say_client(authority: Authority, name: str, file: Path, as_json: bool) -> None:
    about = _about(authority.register.known("client", name), 0, time.time())
    if as_json:
        print_json({**about, "credentials": str(file)})
    else:
        click.echo(f"{name}: may {about['what']} until {about['until']}; credentials: {file}")

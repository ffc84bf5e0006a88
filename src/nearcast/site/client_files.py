"""Credential files of clients, issued by the authority itself: no manager is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nearcast.errors import ConfigError, OutputError
from nearcast.sdk.credentials import (
    Credentials,
    load_credentials,
    new_private_key,
    save_credentials,
)
from nearcast.site.authority import Authority
from nearcast.site.layout import SiteFolder
from nearcast.trust.rights import Rights
from nearcast.wire.actions import Home
from nearcast.wire.noise import public_key

__all__ = ["make_client_file", "renew_client_file", "ways_into"]


def ways_into(authority: Authority, ways: Sequence[str]) -> list[Home]:
    """Return edge servers to connect to, with the keys that the authority has signed.

    Parameters
    ----------
    ways
        ``ID=HOST:PORT``; without any: all edges of a site that was laid out in the folder.
    """
    if not ways and (authority.folder / "site.json").exists():
        places = SiteFolder.load(authority.folder).servers
        ways = [f"{one.server}=127.0.0.1:{one.port}" for one in places if one.role == "edge"]
    if not ways:
        raise ConfigError("say where the client connects to: --via ID=HOST:PORT")
    homes = []
    for way in ways:
        server, _, address = way.rpartition("=")
        host, _, port = address.rpartition(":")
        if not server or not host or not (port.isascii() and port.isdigit()):
            raise ConfigError(f"--via {way!r}: must be ID=HOST:PORT")
        issued = authority.register.known("server", server)
        key = issued.server().public_key
        homes.append(Home((host.strip("[]"), int(port)), key, issued.document))
    return homes


def make_client_file(
    authority: Authority,
    client: str,
    rights: Rights,
    ways: Sequence[Home],
    days: float,
    now_s: float,
    file: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Make a key, issue its credential, and write both."""
    if file.exists() and not overwrite:
        raise OutputError(f"{file}: exists already; --overwrite replaces it and the key in it")
    key = new_private_key()
    document = authority.client(client, public_key(key), rights, days, now_s)
    found = Credentials(
        client,
        key,
        ways[0],
        credential=document,
        authority=authority.public_key,
        servers=tuple(ways[1:]),
    )
    save_credentials(found, file, overwrite=overwrite)


def renew_client_file(
    authority: Authority, client: str, days: float, now_s: float, file: Path, *, new_key: bool
) -> None:
    """Issue a credential anew, with the rights that it had, in the client's file."""
    rights = authority.register.known("client", client).client().rights
    known = load_credentials(file)
    if known.client != client:
        raise ConfigError(f"{file}: is of client {known.client!r}")
    key = new_private_key() if new_key else known.private_key
    document = authority.client(client, public_key(key), rights, days, now_s)
    renewed = replace(known, private_key=key, credential=document, authority=authority.public_key)
    save_credentials(renewed, file, overwrite=True)

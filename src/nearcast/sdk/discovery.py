"""How a client finds servers of its site: by DNS, or by asking the local network.

What is found is only where to try. A server is taken if the site's authority, whose key the client
has in its file, has signed it; and it has to prove its key in the handshake. The servers of the
file stay behind those that were found, so that wrong answers cost time and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from nearcast.errors import ConfigError, NearcastError, TrustError, WireError
from nearcast.sdk.credentials import Credentials
from nearcast.trust.credentials import ServerCredential, read_body
from nearcast.trust.signed import read_signed
from nearcast.wire.actions import Home
from nearcast.wire.found_server import FoundServer, site_name
from nearcast.wire.server_check import ServerCheck
from nearcast.wire.ways import WAY_LIMIT

__all__ = ["check_discovery", "discover", "with_found"]

_log = logging.getLogger(__name__)


def check_discovery(how: str) -> None:
    """Raise ConfigError when `how` is neither dns:DOMAIN[@HOST:PORT] nor mdns[:ADDRESS]."""
    kind, _, rest = how.partition(":")
    if kind == "dns" and rest.partition("@")[0]:
        _name_server(rest.partition("@")[2])
    elif kind != "mdns":
        raise ConfigError(f"discovery {how!r:.60}: is dns:DOMAIN, dns:DOMAIN@HOST:PORT or mdns")


async def discover(credentials: Credentials, how: str, timeout_s: float = 3.0) -> Credentials:
    """Return credentials with the servers that were found before those of the file.

    When none is found, they stay as they are, which is logged: a file has a home.

    Raises
    ------
    ConfigError
        When `how` is wrong, the library for it is missing, or the file has no authority to check
        servers by.
    """
    check_discovery(how)
    if not credentials.authority:
        raise ConfigError("discovery needs the authority's key in the credential file")
    kind, _, rest = how.partition(":")
    try:
        if kind == "dns":
            from nearcast.links.dns_servers import find_by_dns

            domain, _, server = rest.partition("@")
            found = await find_by_dns(domain, timeout_s, _name_server(server))
        else:
            from nearcast.links.multicast_servers import find_by_multicast

            found = await find_by_multicast(timeout_s, rest, site_name(credentials.authority))
    except ConfigError:
        raise
    except NearcastError as error:
        _log.warning("%s; the servers of the credential file are tried", error)
        return credentials
    return with_found(credentials, found)


def with_found(credentials: Credentials, found: Iterable[FoundServer]) -> Credentials:
    """Return credentials that begin with those of some servers that belong to the site."""
    check = ServerCheck(credentials.authority, credentials.revoked)
    homes: dict[Home, None] = {}
    for one in found:
        try:
            home = _home(one, credentials.home)
            if home.credential:
                check.check(home, 0.0)  # its time is looked at in the session
            homes[home] = None
        except (TrustError, WireError) as error:
            _log.warning("%s:%d is no server of the site: %s", one.host, one.port, error)
    first, *others = [*list(homes)[:WAY_LIMIT], credentials.home]
    known = dict.fromkeys((*others, *credentials.servers))
    known.pop(first, None)
    return replace(credentials, home=first, servers=tuple(known))


def _home(found: FoundServer, known: Home) -> Home:
    """Return a server by what was signed of it; without that, the home at another address."""
    address = (found.host, found.port)
    if not found.credential:
        return Home(address, known.server_key, known.credential)
    credential = read_body(read_signed(found.credential).body, ServerCredential)
    return Home(address, credential.public_key, found.credential)


def _name_server(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"discovery: {text!r:.60} is no HOST:PORT of a name server")
    return host.strip("[]"), int(port)

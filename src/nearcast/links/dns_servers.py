"""Edge servers by DNS: SRV records of a domain, and what was signed about them; home of dnspython.

::

    _nearcast._udp.DOMAIN.   SRV   10 5 7000 e1.DOMAIN.
    _nearcast._udp.e1.DOMAIN.  TXT  "port=7000" "credential=BASE64" "BASE64"

A name of a server with several ports has several TXT records. A server without one is known by its
address only.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nearcast.errors import ConfigError, NearcastError
from nearcast.wire.found_server import MOST_FOUND, SERVICE, FoundServer

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

__all__ = ["find_by_dns", "zone_lines"]

_TEXT_BYTES = 255
"""Of one text of a TXT record."""
_MOST_CREDENTIAL_BYTES = 2_048


async def find_by_dns(
    domain: str, timeout_s: float, name_server: tuple[str, int] | None = None
) -> list[FoundServer]:
    """Return the edge servers of a domain, in the order in which to try them (RFC 2782).

    Parameters
    ----------
    name_server
        Address of the one to ask; None: those of this machine.

    Raises
    ------
    ConfigError
        When dnspython is not installed, or the domain is no name.
    NearcastError
        When nobody answers, or the domain has no such servers.
    """
    try:
        import dns.asyncresolver
        import dns.exception
    except ImportError:
        raise ConfigError("dnspython is not installed: pip install 'nearcast[discovery]'") from None
    resolver = dns.asyncresolver.Resolver(configure=name_server is None)
    if name_server is not None:
        resolver.nameservers, resolver.port = [name_server[0]], name_server[1]
    resolver.lifetime = timeout_s
    try:
        answer: Any = await resolver.resolve(f"{SERVICE}.{domain}.", "SRV")
        records = _in_order(list(answer)[:MOST_FOUND])
        found = await asyncio.gather(*(_servers(resolver, one) for one in records))
    except (dns.exception.DNSException, OSError) as error:
        reason = str(error) or type(error).__name__
        raise NearcastError(f"DNS, {SERVICE}.{domain}: {reason:.200}") from None
    except (UnicodeError, ValueError) as error:
        raise ConfigError(f"DNS, {domain!r:.80}: {error}") from None
    return [server for some in found for server in some]


def zone_lines(
    domain: str, servers: Iterable[tuple[str, str, int, bytes]], ttl_s: int = 300
) -> list[str]:
    """Return the lines of a zone file for servers: id, host, port and credential of each.

    A host that is an address gets a name in the domain, made of the server's id.
    """
    import ipaddress

    lines = []
    for server, host, port, credential in servers:
        target = f"{host}."
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            label = "".join(one if one.isalnum() else "-" for one in server.lower())
            target = f"{label}.{domain}."
            kind = "A" if address.version == 4 else "AAAA"
            lines.append(f"{target} {ttl_s} IN {kind} {address}")
        lines.append(f"{SERVICE}.{domain}. {ttl_s} IN SRV 10 10 {port} {target}")
        text = "credential=" + base64.b64encode(credential).decode()
        parts = [text[at : at + _TEXT_BYTES] for at in range(0, len(text), _TEXT_BYTES)]
        quoted = " ".join(f'"{one}"' for one in (f"port={port}", *parts))
        lines.append(f"{SERVICE}.{target} {ttl_s} IN TXT {quoted}")
    return lines


def _in_order(records: Sequence[Any]) -> list[Any]:
    """Return SRV records by priority, those of one by chance with their weights."""

    def key(one: Any) -> tuple[int, float]:
        return one.priority, -(random.random() ** (1 / max(one.weight, 0.01)))

    return sorted(records, key=key)


async def _servers(resolver: Resolver, record: Any) -> list[FoundServer]:
    """Return a server with each credential that its name has for the port; or without any."""
    target = record.target.to_text()
    texts, *addresses = await asyncio.gather(
        _ask(resolver, f"{SERVICE}.{target}", "TXT"),
        *(_ask(resolver, target, kind) for kind in ("A", "AAAA")),
    )
    # a name that this resolver does not know may be known to the machine's
    host = next((one.address for some in addresses for one in some), target.rstrip("."))
    credentials = [
        found
        for text in texts[:MOST_FOUND]
        if (found := _credential(text.strings, record.port)) is not None
    ]
    return [FoundServer(host, record.port, one) for one in credentials or [b""]]


async def _ask(resolver: Resolver, name: str, kind: str) -> list[Any]:
    from dns.exception import DNSException

    try:
        return list(await resolver.resolve(name, kind))
    except (DNSException, OSError):
        return []


def _credential(strings: Sequence[bytes], port: int) -> bytes | None:
    head, *rest = strings
    if head != b"port=%d" % port:
        return None
    text = b"".join(rest).removeprefix(b"credential=")
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return found if len(found) <= _MOST_CREDENTIAL_BYTES else None

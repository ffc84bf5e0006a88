"""Edge servers by multicast DNS, in the local network: advertised and found; home of zeroconf."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Any

from nearcast.errors import ConfigError, NearcastError
from nearcast.wire.found_server import MOST_FOUND, SERVICE, FoundServer

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

__all__ = ["Advertisement", "find_by_multicast"]

_TYPE = f"{SERVICE}.local."
_PART_BYTES = 200
"""Of a credential in one property, which has 255 with its name."""
_MOST_PARTS = 10
_QUIET_S = 0.3
"""How long others may still answer after the first has."""


async def find_by_multicast(
    timeout_s: float, interface: str = "", site: str = ""
) -> list[FoundServer]:
    """Ask who is there, and return the edge servers that answer.

    Parameters
    ----------
    interface
        An address of this machine to ask at; empty: all of them.
    site
        Servers of other sites are left out, see `Advertisement`.

    Raises
    ------
    ConfigError
        When zeroconf is not installed.
    NearcastError
        When nobody can be asked, or nobody answers in time.
    """
    asked = _open(interface)
    try:
        from zeroconf import ServiceStateChange
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo

        names: asyncio.Queue[str] = asyncio.Queue(MOST_FOUND)

        def on_change(name: str, state_change: Any, **_: object) -> None:
            if state_change is ServiceStateChange.Added and not names.full():
                names.put_nowait(name)

        browser = AsyncServiceBrowser(asked.zeroconf, _TYPE, handlers=[on_change])
        found: list[FoundServer] = []
        end_s = asyncio.get_running_loop().time() + timeout_s
        try:
            while (left_s := end_s - asyncio.get_running_loop().time()) > 0:
                async with asyncio.timeout(min(left_s, _QUIET_S) if found else left_s):
                    name = await names.get()
                info = AsyncServiceInfo(_TYPE, name)
                if await info.async_request(asked.zeroconf, 1000 * max(0.1, min(left_s, 1.0))):
                    found += _servers(info, site)
        except TimeoutError:
            pass
        finally:
            await browser.async_cancel()
    finally:
        await asked.async_close()
    if not found:
        raise NearcastError(f"multicast: no edge server answered in {timeout_s:g} s")
    return found[:MOST_FOUND]


class Advertisement:
    """Says in the local network that a server is here, until `close`.

    Parameters
    ----------
    server
        Its id.
    address
        Where it listens for clients; any address of the machine: all are told.
    site
        What clients know the site by: the first digits of its authority's key.
    """

    def __init__(self, server: str, address: tuple[str, int], credential: bytes, site: str) -> None:
        self._server, self._address = server, address
        self._credential, self._site = credential, site
        self._zeroconf: AsyncZeroconf | None = None

    async def start(self) -> None:
        """Begin; ConfigError when zeroconf is not installed or the network cannot be used."""
        host, port = self._address
        is_any = ipaddress.ip_address(host).is_unspecified
        self._zeroconf = _open("" if is_any else host)
        from zeroconf import NonUniqueNameException
        from zeroconf.asyncio import AsyncServiceInfo

        parts = [
            self._credential[at : at + _PART_BYTES]
            for at in range(0, len(self._credential), _PART_BYTES)
        ]
        properties: dict[str | bytes, str | bytes | None] = {"site": self._site}
        properties |= {f"c{number}": part for number, part in enumerate(parts)}
        # a label has 63 bytes; the site keeps servers of two sites with one name apart
        label = self._server.encode()[:40].decode(errors="ignore").replace(".", "-")
        info = AsyncServiceInfo(
            _TYPE,
            f"{label} {self._site[:8]} {port}.{_TYPE}",
            addresses=[ipaddress.ip_address(one).packed for one in _own_addresses(host, is_any)],
            port=port,
            properties=properties,
        )
        try:
            await self._zeroconf.async_register_service(info, allow_name_change=True)
        except (OSError, NonUniqueNameException) as error:
            await self.close()
            raise ConfigError(f"cannot advertise by multicast: {error}") from None

    async def close(self) -> None:
        """Say goodbye."""
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()


def _open(interface: str) -> AsyncZeroconf:
    try:
        from zeroconf import InterfaceChoice
        from zeroconf.asyncio import AsyncZeroconf
    except ImportError:
        raise ConfigError("zeroconf is not installed: pip install 'nearcast[discovery]'") from None
    try:
        return AsyncZeroconf(interfaces=[interface] if interface else InterfaceChoice.All)
    except OSError as error:
        raise ConfigError(
            f"multicast cannot be used at {interface or 'any address'}: {error}"
        ) from None


def _own_addresses(host: str, is_any: bool) -> list[str]:
    if not is_any:
        return [host]
    import ifaddr

    found = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    return [one for one in found if not ipaddress.ip_address(one).is_loopback] or ["127.0.0.1"]


def _servers(info: AsyncServiceInfo, site: str) -> list[FoundServer]:
    said = info.properties
    if site and said.get(b"site") != site.encode():
        return []
    parts = (said.get(b"c%d" % number) or b"" for number in range(_MOST_PARTS))
    credential = b"".join(parts)
    return [
        FoundServer(socket.inet_ntoa(packed), int(info.port or 0), credential)
        for packed in info.addresses[:4]
        if len(packed) == 4
    ]

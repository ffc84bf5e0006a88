"""A client finds servers by DNS; what is found is believed only as far as the authority signed it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import dns.message
import dns.rcode
import dns.rrset
import dns.zone
import pytest

from nearcast.errors import ConfigError
from nearcast.links.dns_servers import zone_lines
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import new_private_key
from nearcast.sdk.discovery import check_discovery, discover, with_found
from nearcast.testing.authority import SmallAuthority
from nearcast.wire.actions import Home
from nearcast.wire.found_server import FoundServer
from nearcast.wire.noise import public_key
from sdk.edge import Edge

AUTHORITY, OTHER = SmallAuthority(), SmallAuthority(b"x" * 32)
DOMAIN = "city.example"


class NameServer(asyncio.DatagramProtocol):
    """Answers from the lines of a zone file."""

    def __init__(self, lines: list[str]) -> None:
        head = ["@ 60 IN SOA ns admin 1 60 60 60 60", "@ 60 IN NS ns"]
        self._zone = dns.zone.from_text("\n".join([*head, *lines]), DOMAIN, relativize=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        found = self._zone.get_rrset(query.question[0].name, query.question[0].rdtype)
        if found is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            answer.answer.append(found)
        self._transport.sendto(answer.to_wire(), address)


@asynccontextmanager
async def name_server(lines: list[str]) -> AsyncIterator[str]:
    """Run a name server on loopback; yields how clients use it."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(lines), local_addr=("127.0.0.1", 0)
    )
    try:
        yield f"dns:{DOMAIN}@127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    finally:
        transport.close()


def test_a_client_whose_file_is_out_of_date_finds_its_server_by_dns(edge: Edge) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        old = Home(silent.getsockname(), edge.home.server_key)
        credential = AUTHORITY.server("e 1", edge.home.server_key)
        lines = zone_lines(DOMAIN, [("e 1", *edge.home.address, credential)])
        found = edge.enrol("car", authority=AUTHORITY.key.public_key)

        async def run() -> Home:
            async with (
                name_server(lines) as how,
                Client.connect(replace(found, home=old), discover=how) as client,
            ):
                await client.publish_and_wait("road", "here")
                assert client.credentials.servers == (old,)
                return client.home

        home = asyncio.run(run())
    assert (home, home.credential) == (edge.home, credential)


def test_only_servers_of_the_site_are_tried_and_those_of_the_file_stay(edge: Edge) -> None:
    known = edge.enrol("car", authority=AUTHORITY.key.public_key)
    key, foreign = public_key(new_private_key()), public_key(new_private_key())
    signed = AUTHORITY.server("e2", key)
    found = with_found(
        known,
        [
            FoundServer("10.0.0.9", 7000, OTHER.server("e9", foreign)),
            FoundServer("10.0.0.8", 7000, b"junk"),
            FoundServer("10.0.0.2", 0, signed),
            FoundServer("10.0.0.2", 7000, signed),
            FoundServer("10.0.0.3", 7000),
        ],
    )
    moved = Home(("10.0.0.3", 7000), edge.home.server_key)
    assert (found.home, found.servers) == (Home(("10.0.0.2", 7000), key), (moved, edge.home))
    assert with_found(known, ()) == known


def test_when_nobody_knows_the_domain_the_file_is_used(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    known = edge.enrol("car", authority=AUTHORITY.key.public_key)

    async def run() -> bool:
        async with name_server([]) as how:
            return await discover(known, how) is known

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run())
    assert "the servers of the credential file are tried" in caplog.text


@pytest.mark.parametrize("how", ["", "dns:", "dhcp:x", "dns:a@b", "dns:a@:53", "dns:a@b:99999"])
def test_another_way_to_look_is_one_error(how: str) -> None:
    with pytest.raises(ConfigError, match="discovery"):
        check_discovery(how)


def test_without_an_authority_nothing_that_is_found_could_be_checked(edge: Edge) -> None:
    with pytest.raises(ConfigError, match="authority"):
        asyncio.run(discover(edge.enrol("car"), "mdns"))

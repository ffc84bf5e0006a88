"""A server that says by multicast that it is here is found, on loopback; and the commands of the page."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from nearcast.runtime.config import ClientsConfig
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials
from nearcast.sdk.discovery import discover
from nearcast.site.standalone_folder import StandaloneFolder
from nearcast.wire.actions import Home
from small_site.standalone import with_server


def test_a_server_is_found_by_multicast_and_another_site_leaves_it_alone(tmp_path: Path) -> None:
    async def work(enrolled: list[Credentials]) -> None:
        (car,) = enrolled
        stale = replace(car, home=Home(("127.0.0.1", 9), car.home.server_key))
        async with Client.connect(stale, discover="mdns:127.0.0.1", timeout_s=20) as client:
            assert client.home == car.home
            assert client.home.credential  # the authority has signed it
            assert await client.echo() > 0
        stranger = replace(stale, authority=bytes(32), servers=())
        assert await discover(stranger, "mdns:127.0.0.1", 1.0) is stranger

    folder = StandaloneFolder(tmp_path / "broker")
    clients = ClientsConfig(0, advertise=True)
    asyncio.run(with_server(folder, ["car"], work, clients=clients))

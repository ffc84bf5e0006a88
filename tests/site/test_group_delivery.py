"""A server tells its clients over a true multicast group, on loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials
from nearcast.site.standalone_folder import StandaloneFolder
from nearcast.wire.group_settings import GroupSettings
from small_site.standalone import with_server

GROUP = "239.192.7.2"
SIGNS = ["sign0", "sign1", "sign2"]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind((GROUP, 0))
        return int(found.getsockname()[1])


def test_clients_join_the_group_and_each_hears_everything_once(tmp_path: Path) -> None:
    group = GroupSettings(GROUP, free_port(), least_receivers=2, beacon_s=0.05)

    async def work(enrolled: list[Credentials]) -> None:
        async with AsyncExitStack() as opened:
            car, *signs = [
                await opened.enter_async_context(Client.connect(one)) for one in enrolled
            ]
            heard = dict.fromkeys(SIGNS, 0)
            for one in signs:
                await one.subscribe("alerts")
                count_group(one, heard)
            number = 0
            while min(heard.values()) < 3:  # until they have joined they are told one by one
                await car.publish_and_wait("alerts", f"{number}")
                for one in signs:
                    told = await one.next_notification()
                    assert told is not None
                    assert told.text == f"{number}"
                number += 1
            assert all(one.take_notification() is None for one in signs)

    folder = StandaloneFolder(tmp_path / "broker")
    asyncio.run(with_server(folder, ["car", *SIGNS], work, group=group))


def count_group(client: Client, heard: dict[str, int]) -> None:
    """Count what a client hears in the group."""
    session = client._driver.session
    hear = session.group._hear

    def counted(frames: bytes, now: float) -> None:
        heard[client.name] += 1
        hear(frames, now)

    session.group._hear = counted

"""A program that starts again, and a server that does: nothing in between is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import ClientsConfig, ServerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.server import LiveServer
from nearcast.sdk import Credentials, SyncClient, load_cursors, save_cursors
from nearcast.site.standalone import LocalOrders
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(folder: StandaloneFolder, port: int) -> AsyncIterator[int]:
    """Run a standalone server; yield its port."""
    key, authority = folder.ensure_server("e1"), folder.authority()
    key_file = authority.server_key_file("e1")
    config = ServerConfig(
        *("standalone", "e1", folder.path, key_file, authority.public_key.hex()),
        authority.credential_file("e1"),
        clients=ClientsConfig(port),
    )
    live = LiveServer(config, MemoryHub().link("e1"), read_key_file(key_file))
    await live.start()
    try:
        assert live.client_address is not None
        place = StandalonePlace(key.hex(), "e1", port=live.client_address[1])
        folder.save_place(place)
        orders = LocalOrders(live, folder, place)
        orders.look()
        yield place.port
        orders.close()
    finally:
        await live.stop()


def publish(car: Credentials, *texts: str) -> None:
    with SyncClient.connect(car, timeout_s=30) as client:
        for text in texts:
            client.publish("road/north", text).wait(30)


def hear(sign: Credentials, path: Path, last: str) -> list[str]:
    """Subscribe, and listen until the last text has come; not at all without one."""
    heard: list[str] = []
    with SyncClient.connect(sign, timeout_s=30, cursors=load_cursors(path)) as client:
        client.subscribe("road/#")
        save_cursors(client.cursors, path)
        while last and last not in heard:
            notification = client.next_notification(30)
            assert notification is not None
            heard.append(notification.text)
        save_cursors(client.cursors, path)
    return heard


async def story(folder: StandaloneFolder, path: Path) -> list[str]:
    async with running(folder, 0) as port:
        car, sign = folder.enrol(["car", "sign"])
        await asyncio.to_thread(publish, car, "before")
        assert await asyncio.to_thread(hear, sign, path, "") == []
        await asyncio.to_thread(publish, car, "one", "two")
    async with running(folder, port):
        await asyncio.to_thread(publish, car, "three")
        return await asyncio.to_thread(hear, sign, path, "three")


def test_who_starts_again_hears_what_came_meanwhile_and_nothing_older(tmp_path: Path) -> None:
    heard = asyncio.run(story(StandaloneFolder(tmp_path / "broker"), tmp_path / "cursors"))
    assert heard == ["one", "two", "three"]

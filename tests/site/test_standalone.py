"""A standalone server that becomes an edge of a site, with its key and its messages."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from nearcast.links.http_client import ask
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import ClientsConfig, ServerConfig
from nearcast.runtime.server import LiveServer
from nearcast.sdk import SyncClient
from nearcast.sdk.credentials import Credentials, save_credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.live_site import run_site
from nearcast.site.standalone import LocalOrders
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from nearcast.wire.noise import public_key
from small_site.making import metrics_of, quick, until, write_small_scenario

pytestmark = pytest.mark.slow


def _publish(credentials: Credentials, path: Path, text: str) -> None:
    save_credentials(credentials, path)
    with SyncClient.connect(path, timeout_s=30) as client:
        client.publish("road", text).wait(30)


async def _run_alone(folder: StandaloneFolder, server: str, file: Path) -> int:
    """Publish a message to a standalone server; return the revision that it had."""
    key = folder.make_key()
    config = ServerConfig(
        "standalone", server, folder.path, folder.key_file, clients=ClientsConfig(0)
    )
    live = LiveServer(config, MemoryHub().link(server), key)
    await live.start()
    try:
        assert live.client_address is not None
        host, port = live.client_address
        place = StandalonePlace(public_key(key).hex(), server, port=port)
        folder.save_place(place)
        folder.save_processors([ProcessorRule("#", "echo")])
        (car,) = folder.enrol(["car"])
        assert car.home.address == (host, port)
        orders = LocalOrders(live, folder, place)
        orders.look()
        await asyncio.to_thread(_publish, car, file, "alone")
        orders.close()
        assert live.node.orders is not None
        return live.node.orders.revision
    finally:
        await live.stop()


def test_a_standalone_server_grows_into_a_site(tmp_path: Path) -> None:
    alone = StandaloneFolder(tmp_path / "broker")
    site_folder = tmp_path / "site"
    (site_folder / "clients").mkdir(parents=True)
    revision = asyncio.run(_run_alone(alone, "e1", site_folder / "clients" / "car.json"))
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    for name in ("keys", "data"):
        (site_folder / name).mkdir()
    shutil.copy(alone.key_file, site_folder / "keys" / "e1.key")
    shutil.copytree(alone.path, site_folder / "data" / "e1")
    with run_site(scenario, site_folder, quick(scenario)) as live:
        live.enrol_clients()  # with the key that the client has
        port = live.site.place("e1").http_port
        until(lambda: metrics_of(port)["nearcast_spool_messages"]["road"] == 1, "it is kept")
        with SyncClient.connect(live.site.credentials_file("car"), timeout_s=60) as car:
            car.publish("road", "together").wait(60)
        assert metrics_of(port)["nearcast_spool_messages"]["road"] == 2
        assert live.site.place("e1").public_key == public_key(alone.make_key()).hex()
        assert ask(f"http://127.0.0.1:{port}/status")["revision"] > revision

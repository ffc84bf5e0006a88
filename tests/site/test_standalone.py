"""A standalone server that becomes an edge of a site, with its key and its messages."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.links.http_client import ask
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import ClientsConfig, ServerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.server import LiveServer
from nearcast.sdk import SyncClient
from nearcast.sdk.credentials import Credentials, load_credentials, save_credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.live_site import run_site
from nearcast.site.standalone import LocalOrders
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from nearcast.wire.actions import Home
from small_site.making import metrics_of, quick, until, write_small_scenario

pytestmark = pytest.mark.slow


def _publish(credentials: Credentials, path: Path, text: str) -> None:
    save_credentials(credentials, path)
    with SyncClient.connect(path, timeout_s=30) as client:
        client.publish("road", text).wait(30)


async def _run_alone(folder: StandaloneFolder, server: str, file: Path) -> None:
    """Publish a message to a standalone server."""
    key, authority = folder.ensure_server(server), folder.authority()
    key_file = authority.server_key_file(server)
    config = ServerConfig(
        *("standalone", server, folder.path, key_file, authority.public_key.hex()),
        authority.credential_file(server),
        clients=ClientsConfig(0),
    )
    live = LiveServer(config, MemoryHub().link(server), read_key_file(key_file))
    await live.start()
    try:
        assert live.client_address is not None
        host, port = live.client_address
        place = StandalonePlace(key.hex(), server, port=port)
        folder.save_place(place)
        folder.save_processors([ProcessorRule("#", "echo")])
        (car,) = folder.enrol(["car"])
        assert car.home.address == (host, port)
        orders = LocalOrders(live, folder, place)
        orders.look()
        await asyncio.to_thread(_publish, car, file, "alone")
        orders.close()
    finally:
        await live.stop()


def test_a_standalone_server_grows_into_a_site(tmp_path: Path) -> None:
    alone = StandaloneFolder(tmp_path / "broker")
    site_folder = tmp_path / "site"
    (site_folder / "clients").mkdir(parents=True)
    key = alone.ensure_server("e1")
    asyncio.run(_run_alone(alone, "e1", site_folder / "clients" / "car.json"))
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    # its authority becomes that of the site: credentials of clients go on to count
    for name in ("keys", "credentials"):
        shutil.copytree(alone.path / name, site_folder / name)
    for name in ("authority.key", "authority.pub", "register.db"):
        shutil.copy(alone.path / name, site_folder)
    shutil.copytree(alone.path, site_folder / "data" / "e1")
    with run_site(scenario, site_folder, quick(scenario)) as live:
        car = load_credentials(live.site.credentials_file("car"))
        moved = replace(car, home=Home(("127.0.0.1", live.site.place("e1").port), key))
        save_credentials(moved, live.site.credentials_file("car"), overwrite=True)
        port = live.site.place("e1").http_port
        until(lambda: metrics_of(port)["nearcast_spool_messages"]["road"] == 1, "it is kept")
        with SyncClient.connect(live.site.credentials_file("car"), timeout_s=60) as client:
            client.publish("road", "together").wait(60)
        assert metrics_of(port)["nearcast_spool_messages"]["road"] == 2
        assert ask(f"http://127.0.0.1:{port}/status")["plan_version"] == 1  # the manager's orders

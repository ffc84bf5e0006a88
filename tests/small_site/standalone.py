"""A standalone server in a test's own loop, with clients that are enrolled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import ClientsConfig, ServerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.server import LiveServer
from nearcast.sdk.credentials import Credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.standalone import LocalOrders
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from nearcast.trust.site_plane import SitePlane
from nearcast.wire.group_settings import GroupSettings

Work = Callable[[list[Credentials]], Awaitable[None]]


async def with_server(
    folder: StandaloneFolder,
    names: list[str],
    work: Work,
    rules: Sequence[ProcessorRule] = (),
    plane: SitePlane | None = None,
    clients: ClientsConfig | None = None,
    group: GroupSettings | None = None,
) -> None:
    """Run a standalone server with some clients."""
    key, authority = folder.ensure_server("e1"), folder.authority()
    key_file = authority.server_key_file("e1")
    config = ServerConfig(
        *("standalone", "e1", folder.path, key_file, authority.public_key.hex()),
        authority.credential_file("e1"),
        clients=clients or ClientsConfig(0),
        group=group,
    )
    live = LiveServer(config, MemoryHub().link("e1"), read_key_file(key_file))
    await live.start()
    try:
        assert live.client_address is not None
        place = StandalonePlace(key.hex(), "e1", port=live.client_address[1], plane=plane)
        folder.save_place(place)
        folder.save_processors(rules)
        enrolled = folder.enrol(names)
        orders = LocalOrders(live, folder, place)
        orders.look()
        async with asyncio.timeout(60):
            await work(enrolled)
        orders.close()
    finally:
        await live.stop()

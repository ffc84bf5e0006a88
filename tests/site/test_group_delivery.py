"""A server tells its clients over a true multicast group, on loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError
from nearcast.runtime.config import ServerConfig
from nearcast.runtime.config_files import load_config
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials
from nearcast.site import free_ports
from nearcast.site.layout import SiteSettings, lay_out_site
from nearcast.site.standalone_folder import StandaloneFolder
from nearcast.wire.group_settings import GroupSettings
from small_site.standalone import with_server

GROUP = "239.192.7.2"
TINY = Path(__file__).parents[2] / "examples" / "tiny"
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


def test_each_edge_server_of_a_site_has_a_group_of_its_own(tmp_path: Path) -> None:
    scenario = read_scenario(TINY)
    options = SiteSettings(group=GroupSettings(GROUP, 7401))
    site = lay_out_site(scenario, TINY, tmp_path / "site", options)
    groups = {}
    for place in site.servers[1:]:
        config = load_config(site.config_file(place.server))
        assert isinstance(config, ServerConfig)
        groups[place.server] = config.group
    assert groups.pop("cloud") is None
    ports = [one.port for one in groups.values() if one is not None and one.address == GROUP]
    assert ports == list(range(7401, 7401 + len(scenario.servers)))


def test_a_port_of_a_group_is_never_that_of_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first port to be tried is the one of the group: a server refuses to have it twice."""
    noted, scenario = tmp_path / "noted", read_scenario(TINY)
    noted.write_text("00000000")
    monkeypatch.setattr(free_ports, "_noted", lambda: noted)
    first = free_ports.PORTS.start + 2 * (len(scenario.servers) + 2)  # after those of links
    options = SiteSettings(group=GroupSettings(GROUP, first))
    site = lay_out_site(scenario, TINY, tmp_path / "site", options)
    edges = [one for one in site.servers if one.role == "edge"]
    assert min(one.port for one in edges) >= first + len(edges)
    for one in edges:
        load_config(site.config_file(one.server))  # complains


def test_no_group_beyond_the_last_port(tmp_path: Path) -> None:
    options = SiteSettings(group=GroupSettings(GROUP, 65_535))
    with pytest.raises(ConfigError, match="65536"):
        lay_out_site(read_scenario(TINY), TINY, tmp_path / "site", options)
    assert not (tmp_path / "site").exists()

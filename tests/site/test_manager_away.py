"""Real servers whose manager is gone: homes and brokers are found on their ring, and work is divided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from nearcast.cli.main import nearcast
from nearcast.domain.json_files import write_json
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.routing.keys import INDEX_END
from nearcast.runtime.config import FlowsConfig, ServerConfig
from nearcast.runtime.config_files import load_config, write_config
from nearcast.sdk import SyncClient
from nearcast.sdk.credentials import load_credentials
from nearcast.site.layout import MANAGER, SiteFolder
from nearcast.site.live_site import LiveSite, run_site
from small_site.making import quick, until

pytestmark = pytest.mark.slow

_FLOW = """name = "work"
sources = ["road"]

[components.pass]
processor = "forward"
inputs = ["road"]
output = "passed"
"""
_OVERLOADED = FlowsConfig(overloaded=1e-4, underloaded=5e-5, idle=0.0, idle_s=1e6, lasting_s=0.5)
"""Whatever a server does is too much."""
_HAS_ROOM = FlowsConfig(
    overloaded=1e6, underloaded=1e5, queue_age_s=1e6, idle=0.0, idle_s=1e6, lasting_s=0.5
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """A site on which a flow runs; its manager was killed once servers had told each other."""
    folder = tmp_path_factory.mktemp("away")
    scenario = _write_scenario(folder / "small")
    with run_site(scenario, folder / "site", quick(scenario), prepare=_prepare) as site:
        site.enrol_clients()
        file = site.site.folder / "work.toml"
        file.write_text(_FLOW)
        done = CliRunner().invoke(
            nearcast, ["flow", "run", str(file), "--site", str(site.site.folder)]
        )
        assert done.exit_code == 0, done.output
        until(lambda: _has_told(site), "all servers are on one ring and know its claims", 120)
        site.processes.kill(MANAGER)
        yield site


def _write_scenario(folder: Path) -> Path:
    """Write three edges; e1 has no room for a topic, only sign is a member of one."""
    folder.mkdir(parents=True)
    write_json(folder / "scenario.json", {"name": "away", "width_km": 9.0, "height_km": 9.0})
    tables = {
        "servers": ["server_id,x_km,y_km,storage,compute,client_limit"]
        + [f"e{one},{one},0,1e9,1e12,100" for one in (1, 2, 3)],
        "clients": ["client_id,x_km,y_km", "car,1,0", "sign,2,0", "kiosk,3,0"],
        "topics": ["topic_id,spool", "road,100", "passed,100"],
        "members": ["topic_id,client_id", "road,sign", "passed,sign"],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "plan").mkdir()
    homes = "client_id,server_id\ncar,e1\nsign,e2\nkiosk,e3\n"
    (folder / "plan" / "homes.csv").write_text(homes)
    return folder


def _prepare(site: SiteFolder) -> None:
    for place in site.servers[1:]:
        config = load_config(site.config_file(place.server))
        assert isinstance(config, ServerConfig)
        flows = _OVERLOADED if place.server == "cloud" else _HAS_ROOM
        changed = structs.replace(config, flows=flows)
        if place.server == "e1":
            changed = structs.replace(changed, limits=structs.replace(config.limits, storage=0.0))
        write_config(site.config_file(place.server), changed)


_SERVERS = ("cloud", "e1", "e2", "e3")


def _status(live: LiveSite, server: str) -> Any:
    return ask(f"http://127.0.0.1:{live.site.place(server).http_port}/status")


def _has_told(live: LiveSite) -> bool:
    """Tell whether the ring is one and keeps two copies of all claims: three homes, two topics."""
    found = [_status(live, server) for server in _SERVERS]
    claims = sum(one["tables"]["directory_claims"]["entries"] for one in found)
    known = {one["ring"]["servers_known"] for one in found}
    return known == {len(_SERVERS) - 1} and claims >= 2 * 5


def test_a_guest_is_sent_to_its_home(live: LiveSite) -> None:
    kiosk = load_credentials(live.site.credentials_file("kiosk"))
    wrong = load_credentials(live.site.credentials_file("car")).home
    with SyncClient.connect(replace(kiosk, home=wrong, servers=()), timeout_s=60) as client:
        assert kiosk.home != wrong
        until(lambda: client.home == kiosk.home, "the directory knows the guest's home")


def test_a_stream_without_room_finds_the_broker_of_its_topic(live: LiveSite) -> None:
    file = live.site.credentials_file
    with (
        SyncClient.connect(file("sign"), timeout_s=60) as sign,
        SyncClient.connect(file("car"), timeout_s=60) as car,
    ):
        sign.subscribe("road", timeout_s=60)

        def is_forwarded() -> bool:
            car.publish("road", "here").wait(60)
            return bool(_status(live, "e2")["counts"].get("forwarded_in"))

        until(is_forwarded, "e1 sends its client's stream to e2")
        assert next(sign.notifications(60)).text == "here"


def test_a_server_with_too_much_to_do_divides_its_work(live: LiveSite) -> None:
    def held() -> dict[str, list[dict[str, Any]]]:
        """Return what each server says that it holds; the manager cannot be asked."""
        found = {}
        for server in _SERVERS:
            (flow,) = _status(live, server)["flows"]
            for place in flow["components"]["pass"]["places"]:
                if place["server"] == server and place["parts"]:
                    found[server] = place["parts"]
        return found

    with SyncClient.connect(live.site.credentials_file("sign"), timeout_s=60) as sign:
        sign.subscribe("passed", timeout_s=60)
        sent: list[str] = []

        def is_divided() -> bool:
            for _ in range(10):
                sent.append(f"number {len(sent)}")
                sign.publish("road", sent[-1]).wait(60)
            return len(held()) > 1  # it began at the cloud server, with the manager away

        until(is_divided, "two servers hold parts")
        heard: list[str] = []
        while len(heard) < len(sent):
            one = next(sign.notifications(60))
            if one.topic == "passed" and one.text.startswith("number"):
                heard.append(one.text)
        assert sorted(heard) == sorted(sent)
    parts = [part for found in held().values() for part in found]
    assert all(0 <= part["low"] < part["high"] <= INDEX_END for part in parts)
    with pytest.raises(NearcastError):
        live.status()

"""A small site of real processes behind proxies: its scenario, its plans, its folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from msgspec import structs

from nearcast.domain.json_files import write_json
from nearcast.experiments.survive.proxies import TcpProxy, UdpProxy
from nearcast.runtime.config import ONE_ADDRESS, ManagerConfig
from nearcast.runtime.config_files import load_config, write_config
from nearcast.runtime.crash_points import enable
from nearcast.site.layout import MANAGER, SiteFolder, SiteSettings
from nearcast.site.live_site import LiveSite, run_site
from nearcast.wire.settings import WireSettings

__all__ = ["EDGES", "PUBLISHERS", "SERVERS", "SUBSCRIBERS", "TOPICS", "LiveTrial", "open_trial"]

EDGES = ("e1", "e2", "e3")
SERVERS = (*EDGES, "cloud")
PUBLISHERS = tuple(f"p{number}" for number in range(6))
SUBSCRIBERS = ("s0", "s1")
TOPICS = ("road", "air")
_HOST = "127.0.0.1"
_PLANS = 5
_SPOOL = 1_000_000
_TAKEOVER_S = SiteSettings().takeover_s


@dataclass(slots=True)
class LiveTrial:
    """A site that runs, its proxies, and the plans that it may be switched to."""

    plans: list[Path]
    plan: Path | None = None
    """The one that was adopted last."""
    udp: dict[str, UdpProxy] = field(default_factory=dict)
    """Between clients and edge servers."""
    tcp: dict[str, TcpProxy] = field(default_factory=dict)
    """Between servers."""
    live: LiveSite = field(init=False)

    async def start_proxies(self, site: SiteFolder) -> None:
        """Put proxies in front of all servers, and have the manager name those to everybody."""
        entries = []
        config = load_config(site.config_file(MANAGER))
        assert isinstance(config, ManagerConfig)
        for entry in config.servers:
            tcp = self.tcp[entry.id] = TcpProxy((_HOST, entry.mesh_port))
            await tcp.start()
            entry = structs.replace(entry, mesh_port=tcp.port)
            if entry.port:
                udp = self.udp[entry.id] = UdpProxy((_HOST, entry.port))
                await udp.start()
                entry = structs.replace(entry, port=udp.port)
            entries.append(entry)
        write_config(site.config_file(MANAGER), structs.replace(config, servers=tuple(entries)))

    async def close(self) -> None:
        """Let go of the proxies."""
        for udp in self.udp.values():
            udp.close()
        for tcp in self.tcp.values():
            await tcp.close()


@asynccontextmanager
async def open_trial(
    folder: Path,
    seed: int,
    wire: WireSettings = ONE_ADDRESS,
    takeover_s: float = _TAKEOVER_S,
    *,
    can_crash: bool = False,
) -> AsyncIterator[LiveTrial]:
    """Run a site whose clients and servers reach each other through proxies only.

    Parameters
    ----------
    can_crash
        Whether servers can be armed to die at a step.
    """
    scenario = folder / "scenario"
    trial = LiveTrial(_write_scenario(scenario, Random(seed)))
    settings = SiteSettings(
        plan=trial.plans[0], delay_factor=0.0, log_segment_s=1.0, takeover_s=takeover_s
    )
    settings = replace(settings, wire=replace(wire, report_interval_s=0.5))
    loop = asyncio.get_running_loop()

    def prepare(site: SiteFolder) -> None:
        asyncio.run_coroutine_threadsafe(trial.start_proxies(site), loop).result()
        for server in SERVERS if can_crash else ():
            enable(site.folder / "data" / server)

    running = run_site(scenario, folder / "site", settings, prepare=prepare)
    try:
        # in a thread: servers that start talk through the proxies of this loop
        trial.live = await asyncio.to_thread(running.__enter__)
        try:
            yield trial
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
    finally:
        await trial.close()


def _write_scenario(folder: Path, rng: Random) -> list[Path]:
    """Write a scenario in which everybody is a member of everything; return random plans."""
    folder.mkdir(parents=True)
    write_json(folder / "scenario.json", {"name": "trial", "width_km": 10.0, "height_km": 10.0})
    clients = (*PUBLISHERS, *SUBSCRIBERS)
    tables = {
        "servers": ["server_id,x_km,y_km,storage,compute,client_limit"]
        + [f"{name},{index},0,1000000000,1000000000000,1000" for index, name in enumerate(EDGES)],
        "clients": ["client_id,x_km,y_km"] + [f"{name},1,0.1" for name in clients],
        "topics": ["topic_id,spool"] + [f"{name},{_SPOOL}" for name in TOPICS],
        "members": ["topic_id,client_id"] + [f"{t},{c}" for t in TOPICS for c in clients],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [_write_plan(folder / f"plan{number}", clients, rng) for number in range(_PLANS)]


def _write_plan(folder: Path, clients: tuple[str, ...], rng: Random) -> Path:
    """Write a plan with random homes and brokers, some of them in the cloud."""
    folder.mkdir()
    homes = {name: rng.choice(EDGES) for name in clients}
    publish = {(topic, name): rng.choice(EDGES) for topic in TOPICS for name in clients}
    brokers = sorted({(topic, server) for (topic, _), server in publish.items()})
    tables = {
        "homes": ["client_id,server_id"] + [f"{name},{home}" for name, home in homes.items()],
        "publish": ["topic_id,client_id,server_id"]
        + [f"{topic},{name},{server}" for (topic, name), server in publish.items()],
        "brokers": ["topic_id,server_id,hosted,share"]
        + [
            f"{topic},{server},{'cloud' if rng.random() < 0.3 else 'edge'},1"
            for topic, server in brokers
        ],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder

"""Measures how a manager takes in another plan of a large site, and prints the numbers as JSON.

The manager is the true one, with its store, its helper process and files; its servers are ends of
links that acknowledge. The clients are enrolled, and a tenth of them has another home by the plan.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.experiments.site_scale_worker import enrolled_client
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import HttpConfig, ManagerConfig, MeshConfig, ServerEntry, SiteConfig
from nearcast.runtime.manager import LiveManager, run_manager
from nearcast.runtime.manager_plans import AskedPlan
from nearcast.runtime.manager_store import ManagerStore
from nearcast.server.manager_state import ManagerState
from nearcast.server.mesh_messages import LoadReport, NewOrders, decode_mesh, encode_mesh
from nearcast.server.peer_channels import PeerChannels
from nearcast.site.authority import Authority
from nearcast.trust.credentials import ServerCredential, Validity, issue_server
from nearcast.trust.signed import read_signed

_PUBLISHERS_PER_TOPIC = 100
_ENROLLED_AT_ONCE = 5_000
_LOOK_S = 0.001
_REPORT_INTERVAL_S = 5.0


def _write_scenario(folder: Path, clients: int, edges: int) -> None:
    folder.mkdir()
    settings = {"name": "scale", "width_km": 100.0, "height_km": 100.0}
    (folder / "scenario.json").write_text(json.dumps(settings))
    topics = max(1, clients // _PUBLISHERS_PER_TOPIC)
    numbers = range(clients)
    tables: dict[str, dict[str, list[Any]]] = {
        "servers": {
            "server_id": [f"e{number}" for number in range(edges)],
            "x_km": [100.0 * number / edges for number in range(edges)],
            "y_km": [50.0] * edges,
        },
        "clients": {
            "client_id": [f"c{number}" for number in numbers],
            "x_km": [100.0 * number / clients for number in numbers],
            "y_km": [50.0] * clients,
        },
        "topics": {"topic_id": [f"t{number}" for number in range(topics)], "spool": [100] * topics},
        "members": {
            "topic_id": [f"t{number * topics // clients}" for number in numbers],
            "client_id": [f"c{number}" for number in numbers],
            "publishes": [1] * clients,
            "subscribes": [1] * clients,
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def _write_plan(folder: Path, clients: int, edges: int, home: Callable[[int], int]) -> None:
    folder.mkdir()
    columns = {
        "client_id": [f"c{number}" for number in range(clients)],
        "server_id": [f"e{home(number) % edges}" for number in range(clients)],
    }
    pq.write_table(pa.table(columns), folder / "homes.parquet")


def _config(folder: Path, edges: int) -> ManagerConfig:
    authority, now_s = Authority.open_or_create(folder / "keys"), time.time()
    authority.server("manager", "manager", 1, now_s)
    authority.server("cloud", "cloud", 1, now_s)
    signer, valid = authority.signing_key(), Validity(int(now_s), int(now_s) + 86_400)
    entries = [ServerEntry("cloud", "127.0.0.1", 7100, authority.credential_file("cloud"))]
    for number in range(edges):
        name, path = f"e{number}", folder / f"e{number}.hex"
        credential = ServerCredential(name, "edge", (number + 1).to_bytes(32, "big"), 1, valid)
        path.write_text(issue_server(signer, credential).hex())
        entries.append(ServerEntry(name, "127.0.0.1", 7100, path, "127.0.0.1", 7000))
    (folder / "token").write_text("a-token-of-operators")
    return ManagerConfig(
        role="manager",
        id="manager",
        data=folder / "data",
        key_file=authority.server_key_file("manager"),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file("manager"),
        signing_key_file=authority.signing_key_file("manager"),
        mesh=MeshConfig("127.0.0.1:0"),
        site=SiteConfig(scenario=folder / "scenario", plan=folder / "plan"),
        servers=tuple(entries),
        token_file=folder / "token",
        http=HttpConfig(port=0),
    )


def _enrol(path: Path, clients: int, edges: int) -> None:
    store = ManagerStore(path)
    state = ManagerState(0, {}, (), ())
    for start in range(0, clients, _ENROLLED_AT_ONCE):
        numbers = range(start, min(start + _ENROLLED_AT_ONCE, clients))
        enrolled = (enrolled_client(one, f"e{one * edges // clients}") for one in numbers)
        store.save_clients(enrolled, state)
    store.close()


class _Revision(msgspec.Struct):
    revision: int


class _Servers:
    """The servers of the site: they take orders and report."""

    def __init__(self, hub: MemoryHub, names: list[str]) -> None:
        self._channels = {name: PeerChannels(1) for name in names}
        self._links = {name: hub.link(name) for name in names}
        self._revisions = dict.fromkeys(names, 0)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Report, each server every few seconds."""
        for name, link in self._links.items():
            await link.start(partial(self._on_mesh, name))
        while True:
            for name, channels in self._channels.items():
                revision = self._revisions[name]
                report = LoadReport(revision, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0.0)
                channels.send("manager", encode_mesh(report))
                self._flush(name)
                await asyncio.sleep(_REPORT_INTERVAL_S / len(self._channels))

    async def have(self, revision: int) -> None:
        """Wait until all have orders of a revision."""
        while min(self._revisions.values()) < revision:
            self._changed.clear()
            await self._changed.wait()

    def _on_mesh(self, name: str, _sender: str, data: bytes) -> None:
        for raw in self._channels[name].receive("manager", data, time.monotonic()):
            message = decode_mesh(raw)
            if isinstance(message, NewOrders):
                body = read_signed(message.document).body
                self._revisions[name] = msgspec.msgpack.decode(body, type=_Revision).revision
                self._changed.set()
        self._flush(name)

    def _flush(self, name: str) -> None:
        for receiver, frame in self._channels[name].poll(time.monotonic()):
            self._links[name].send(receiver, frame)


class _StallMeter:
    """Notes the longest time for which a loop did not come round."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        """Come round as often as can be."""
        last_s = time.perf_counter()
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = time.perf_counter()
            self.longest_s = max(self.longest_s, now_s - last_s - _LOOK_S)
            last_s = now_s


async def _adopt(config: ManagerConfig, plan: Path) -> dict[str, Any]:
    hub, stop, meter = MemoryHub(), asyncio.Event(), _StallMeter()
    started: asyncio.Queue[LiveManager] = asyncio.Queue()
    servers = _Servers(hub, [one.id for one in config.servers])
    async with asyncio.TaskGroup() as group:
        group.create_task(run_manager(config, hub.link("manager"), stop, started.put_nowait))
        manager = await started.get()
        reporting = group.create_task(servers.run())
        await servers.have(1)
        metering = group.create_task(meter.run())
        began_s = time.perf_counter()
        await manager.adopt(AskedPlan(plan))
        adopted_s = time.perf_counter()
        await servers.have(2)
        told_s = time.perf_counter()
        metering.cancel()
        reporting.cancel()
        stop.set()
    return {
        "adopt_s": round(adopted_s - began_s, 1),
        "orders_s": round(told_s - adopted_s, 1),
        "stall_ms": round(1e3 * meter.longest_s, 1),
    }


def _measure(clients: int, edges: int, folder: Path) -> dict[str, Any]:
    """Return how long another plan takes, and for how long the manager did not answer."""
    _write_scenario(folder / "scenario", clients, edges)
    _write_plan(folder / "plan", clients, edges, lambda number: number * edges // clients)
    other = folder / "other"
    _write_plan(
        other, clients, edges, lambda number: number * edges // clients + (number % 10 == 0)
    )
    config = _config(folder, edges)
    _enrol(config.data / "manager.db", clients, edges)
    return asyncio.run(_adopt(config, other))


def main() -> None:
    """Measure the task given as JSON in the first argument."""
    task = json.loads(sys.argv[1])
    found = _measure(task["clients"], task["edges"], Path(task["folder"]))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()

"""The shell of one server: a bug in a callback, a second server on the same data."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from nearcast.errors import NearcastError, RestartNeededError, SpoolFullError, SpoolLostError
from nearcast.links.memory_mesh import MemoryHub
from nearcast.links.mesh import PeerAddress
from nearcast.links.tcp_mesh import TcpMesh
from nearcast.runtime.config import ManagerEntry, MeshConfig, ServerConfig
from nearcast.runtime.logs import start_logging
from nearcast.runtime.server import LiveServer, run_server
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.server.mesh_messages import NewOrders, encode_mesh
from nearcast.server.outputs import Outputs
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.wire.noise import public_key
from small_site.making import metrics_of

MESH = MeshConfig("127.0.0.1:1", ManagerEntry("127.0.0.1:2", "07" * 32))
"""Not used: here the mesh is in memory."""


def _cloud(folder: Path, name: str = "cloud") -> ServerConfig:
    return ServerConfig(role="cloud", id=name, data=folder, key_file=folder / "key", mesh=MESH)


def test_a_bug_in_one_event_is_counted_and_logged_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = StringIO()
    handler = start_logging("cloud", said)

    async def live() -> dict[str, dict[str, float]]:
        hub = MemoryHub()
        server = LiveServer(_cloud(tmp_path), hub.link("cloud"), None)
        await server.start()
        try:
            went_on = asyncio.Event()

            def fail(from_server: str, frame: bytes, now: float) -> Outputs:
                if frame == b"first":
                    raise RuntimeError("a bug")
                went_on.set()
                return Outputs()

            monkeypatch.setattr(server.node, "on_mesh", fail)
            for frame in (b"first", b"second"):
                hub.carry("e1", "cloud", frame)
            async with asyncio.timeout(10):
                await went_on.wait()
            assert "events fail, 1 since the start" in " ".join(server.report.health())
            return await asyncio.to_thread(metrics_of, server.http.address[1])
        finally:
            await server.stop()

    try:
        metrics = asyncio.run(live())
    finally:
        logging.getLogger("nearcast").removeHandler(handler)
        logging.getLogger("nearcast").propagate = True
        handler.close()
    assert metrics["nearcast_internal_errors_total"] == {"": 1}
    (line,) = [json.loads(one) for one in said.getvalue().splitlines() if "internal_error" in one]
    assert line["level"] == "error"
    assert "RuntimeError: a bug" in line["error"]


def test_a_server_has_no_thread_but_that_of_its_loop(tmp_path: Path) -> None:
    async def live() -> None:
        before = threading.active_count()
        server = LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), None)
        await server.start()
        assert threading.active_count() == before
        await server.stop()
        assert threading.active_count() == before

    asyncio.run(live())


def test_a_second_server_on_the_same_data_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async def live() -> list[Path]:
        hub, stop = MemoryHub(), asyncio.Event()
        first = LiveServer(_cloud(tmp_path), hub.link("cloud"), None)
        await first.start()
        try:
            before = sorted((tmp_path / "spool").glob("segment-*"))
            with pytest.raises(NearcastError, match="another process uses the spool folder"):
                await run_server(_cloud(tmp_path, "second"), hub.link("second"), stop)
            assert sorted((tmp_path / "spool").glob("segment-*")) == before
        finally:
            await first.stop()
        return before

    assert asyncio.run(live())


def test_a_server_whose_spool_is_lost_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = LiveServer.start

    async def start_and_lose(server: LiveServer) -> None:
        await start(server)
        server._on_lost(SpoolLostError("the sync failed"))

    monkeypatch.setattr(LiveServer, "start", start_and_lose)
    with pytest.raises(RestartNeededError, match="server 'cloud' ends: the sync failed"):
        asyncio.run(run_server(_cloud(tmp_path), MemoryHub().link("cloud"), asyncio.Event()))


class Peer:
    """Another server on the mesh, which says what it likes."""

    def __init__(self, seed: bytes) -> None:
        self.key = seed * 32
        self.mesh = TcpMesh("127.0.0.1", 0, self.key)
        self.channels = PeerChannels(1)

    async def start(self, server: PeerAddress) -> None:
        self.server = server.server
        self.mesh.learn([server])
        await self.mesh.start(self._hear)

    def order(self, revision: int, servers: tuple[ServerOrder, ...] = ()) -> None:
        orders = Orders(revision, 1, "cloud", servers, (), ())
        self.channels.send(self.server, encode_mesh(NewOrders(orders)))
        self._flush()

    def _hear(self, server: str, frame: bytes) -> None:
        self.channels.receive(server, frame, 0.0)
        self._flush()

    def _flush(self) -> None:
        for server, frame in self.channels.poll(0.0):
            self.mesh.send(server, frame)


def test_orders_come_from_the_managers_key_only(tmp_path: Path) -> None:
    manager, liar, own_key = Peer(b"\1"), Peer(b"\2"), b"\3" * 32

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - many things may make it hold
                await asyncio.sleep(0.005)

    async def live() -> None:
        entry = ManagerEntry("127.0.0.1:1", public_key(manager.key).hex())
        config = msgspec.structs.replace(_cloud(tmp_path), mesh=MeshConfig("127.0.0.1:0", entry))
        mesh = TcpMesh("127.0.0.1", 0, own_key)
        server = LiveServer(config, mesh, None)
        await server.start()
        address = PeerAddress("cloud", "127.0.0.1", mesh.port, public_key(own_key))
        try:
            await liar.start(address)
            liar.order(5)
            await until(lambda: mesh.rejected.get("unknown_key", 0) >= 2)
            assert server.node.orders is None
            await manager.start(address)
            servers = (
                ServerOrder("cloud", "", 0, public_key(own_key), "127.0.0.1", mesh.port),
                ServerOrder("e2", "", 0, public_key(liar.key), "127.0.0.1", liar.mesh.port),
            )
            manager.order(1, servers)
            await until(lambda: server.node.counts["mesh_refused"] > 0)
            assert server.node.orders is not None
            assert server.node.orders.revision == 1
            links = {one.server: one.state for one in mesh.states()}
            assert links == {"manager": "connected", "e2": "connected"}
        finally:
            await server.stop()
            await liar.mesh.close()
            await manager.mesh.close()

    asyncio.run(live())


def test_a_server_that_starts_on_a_full_disk_wants_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not its configuration that is wrong: exit code 1, not 2."""

    async def is_full(_writer: SpoolWriter) -> None:
        raise SpoolFullError("the spool's disk is full; make room")

    monkeypatch.setattr(SpoolWriter, "start", is_full)

    async def live() -> None:
        await LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), None).start()

    with pytest.raises(RestartNeededError, match="make room"):
        asyncio.run(live())

"""The shell of one server: a bug in a callback, a second server on the same data."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from nearcast.errors import (
    ConfigError,
    NearcastError,
    RestartNeededError,
    SpoolFullError,
    SpoolLostError,
)
from nearcast.links.memory_mesh import MemoryHub
from nearcast.links.mesh import PeerAddress
from nearcast.links.tcp_mesh import TcpMesh
from nearcast.links.udp import UdpSocket
from nearcast.runtime.config import (
    ClientsConfig,
    LogConfig,
    ManagerEntry,
    MeshConfig,
    ServerConfig,
)
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.logs import start_logging
from nearcast.runtime.server import LiveServer, run_server
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.server.mesh_messages import NewOrders, encode_mesh
from nearcast.server.outputs import Outputs
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.site.authority import Authority
from nearcast.trust.signed import SigningKey
from nearcast.wire.noise import public_key
from nearcast.wire.session_index import first_word
from nearcast.wire.settings import Address
from small_site.making import metrics_of


def _cloud(folder: Path, name: str = "cloud") -> ServerConfig:
    return _server(folder, name, "cloud")


def _server(
    folder: Path,
    name: str,
    role: Literal["cloud", "edge"],
    clients: ClientsConfig | None = None,
    log: LogConfig | None = None,
) -> ServerConfig:
    authority = Authority.open_or_create(folder / "keys")
    authority.ensure_server("manager", "manager", time.time())
    authority.ensure_server(name, role, time.time())
    credential = authority.credential_file("manager").read_text().strip()
    return ServerConfig(
        role=role,
        id=name,
        data=folder,
        key_file=authority.server_key_file(name),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file(name),
        mesh=MeshConfig("127.0.0.1:1", ManagerEntry("127.0.0.1:2", credential)),
        clients=clients,
        log=log or LogConfig(),
    )


def test_a_bug_in_one_event_is_counted_and_logged_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = StringIO()
    handler = start_logging("cloud", said)

    async def live() -> dict[str, dict[str, float]]:
        hub = MemoryHub()
        server = LiveServer(_cloud(tmp_path), hub.link("cloud"), b"k" * 32)
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


def test_what_parts_refuse_is_in_the_metrics(tmp_path: Path) -> None:
    async def live() -> None:
        server = LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), b"k" * 32)
        await server.start()
        server._on_mesh("e1", b"no frame")
        server.node.processor_refused["too_far"] += 2
        text = server.metrics.text().decode()
        await server.stop()
        assert 'nearcast_mesh_frames_refused_total{server="cloud"} 1\n' in text
        assert 'nearcast_processor_refused_total{server="cloud",reason="too_far"} 2\n' in text

    asyncio.run(live())


def test_a_long_pause_of_the_loop_or_the_disk_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        server = LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), b"k" * 32)
        await server.start()
        server._lag_timer.cancel()
        server._lag_due -= 30.0  # as if the loop had not come round since
        monkeypatch.setattr(server._writer, "take_sync_seconds", lambda: [0.01, 0.7])
        server._watch_lag()
        await server.stop()

    asyncio.run(live())
    stalls = [vars(one)["fields"] for one in caplog.records if one.message == "stalled"]
    assert [one["what"] for one in stalls] == ["disk", "loop"]
    assert stalls[0]["s"] == 0.7
    assert stalls[1]["s"] >= 29


def test_a_server_has_no_thread_but_that_of_its_loop(tmp_path: Path) -> None:
    async def live() -> None:
        before = threading.active_count()
        server = LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), b"k" * 32)
        await server.start()
        assert threading.active_count() == before
        await server.stop()
        assert threading.active_count() == before

    asyncio.run(live())


def test_only_a_pass_with_publications_of_a_busy_server_lets_datagrams_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> list[bytes]:
        config = _server(tmp_path, "e1", "edge", ClientsConfig(port=0), LogConfig(enabled=False))
        key = read_key_file(config.key_file)
        head = first_word(key).value.to_bytes(4, "big")
        receipt, publication = head + b"receipt", head + b"publication"
        server = LiveServer(config, MemoryHub().link("e1"), key)
        await server.start()
        server.node.flows.load.busy_share = 2.0  # what the loop has measured is a small part of it
        server._watch_lag()
        server._lag_timer.cancel()
        taken: list[bytes] = []
        is_taken = asyncio.Event()
        gathered_after: list[bytes] = []

        def take(batch: list[tuple[bytes, Address]], _now: float, _age_s: float) -> Outputs:
            taken.extend(data for data, _ in batch)
            is_taken.set()
            return Outputs()

        def finish(_now: float) -> Outputs:
            return Outputs(publications=[("row",)] if taken[-1] == publication else [])

        monkeypatch.setattr(server.node, "on_datagrams", take)
        monkeypatch.setattr(server.node, "finish", finish)
        monkeypatch.setattr(
            UdpSocket, "gather", lambda _socket, _s: gathered_after.append(taken[-1])
        )
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                assert server.client_address is not None
                for data in (receipt, publication):
                    client.sendto(data, server.client_address)
                    async with asyncio.timeout(10):
                        await is_taken.wait()
                    is_taken.clear()
        finally:
            await server.stop()
        return [one[4:] for one in gathered_after]

    assert asyncio.run(live()) == [b"publication"]


def test_a_second_server_on_the_same_data_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async def live() -> list[Path]:
        hub, stop = MemoryHub(), asyncio.Event()
        first = LiveServer(_cloud(tmp_path), hub.link("cloud"), b"k" * 32)
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

    def __init__(self, key: bytes, signer: SigningKey) -> None:
        self.key, self._signer = key, signer
        self.mesh = TcpMesh("127.0.0.1", 0, self.key)
        self.channels = PeerChannels(1)

    async def start(self, server: PeerAddress) -> None:
        self.server = server.server
        self.mesh.learn([server])
        await self.mesh.start(self._hear)

    def order(self, revision: int, servers: tuple[ServerOrder, ...] = ()) -> None:
        orders = Orders(revision, 1, "cloud", servers, (), (), server="cloud")
        document = sign_orders(self._signer, orders)
        self.channels.send(self.server, encode_mesh(NewOrders(document)))
        self._flush()

    def _hear(self, server: str, frame: bytes) -> None:
        self.channels.receive(server, frame, 0.0)
        self._flush()

    def _flush(self) -> None:
        for server, frame in self.channels.poll(0.0):
            self.mesh.send(server, frame)


def test_orders_count_from_the_managers_link_and_with_its_signature_only(tmp_path: Path) -> None:
    config = _cloud(tmp_path)
    authority = Authority(tmp_path / "keys")
    authority.server("e2", "edge", 1, time.time())
    signer = SigningKey(read_key_file(authority.signing_key_file("manager")))
    manager_key = read_key_file(authority.server_key_file("manager"))
    manager = Peer(manager_key, signer)
    liar = Peer(read_key_file(authority.server_key_file("e2")), signer)
    forger = Peer(b"\2" * 32, SigningKey(b"f" * 32))

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - many things may make it hold
                await asyncio.sleep(0.005)

    async def live() -> None:
        own_key = read_key_file(config.key_file)
        mesh = TcpMesh("127.0.0.1", 0, own_key)
        server = LiveServer(config, mesh, b"k" * 32)
        await server.start()
        address = PeerAddress("cloud", "127.0.0.1", mesh.port, public_key(own_key))
        try:
            await liar.start(address)
            liar.order(5)
            await until(lambda: mesh.rejected.get("unknown_key", 0) >= 2)
            assert server.node.orders is None
            await manager.start(address)
            place = ("127.0.0.1", liar.mesh.port)
            documents = {
                name: bytes.fromhex(authority.credential_file(name).read_text())
                for name in ("cloud", "e2")
            }
            servers = (
                ServerOrder("cloud", "", 0, public_key(own_key), *place, documents["cloud"]),
                ServerOrder("e2", "", 0, public_key(liar.key), *place, documents["e2"]),
                ServerOrder("e3", "", 0, public_key(forger.key), *place, documents["e2"]),
                ServerOrder("e4", "", 0, public_key(forger.key), *place),
            )
            manager.order(1, servers)
            await until(lambda: server.node.counts["mesh_refused"] > 0)  # what e2 said
            assert server.node.orders is not None
            assert server.node.orders.revision == 1
            # of e3 and e4 the authority knows nothing
            links = {one.server: one.state for one in mesh.states()}
            assert links == {"manager": "connected", "e2": "connected"}
            manager._signer = SigningKey(b"f" * 32)
            refused = server.node.counts["mesh_refused"]
            manager.order(9, servers)
            await until(lambda: server.node.counts["mesh_refused"] > refused)
            assert server.node.orders.revision == 1
        finally:
            await server.stop()
            for one in (liar, manager, forger):
                await one.mesh.close()

    asyncio.run(live())
    saved = (tmp_path / "orders.msgpack").read_bytes()

    async def again() -> int:
        server = LiveServer(config, MemoryHub().link("cloud"), b"k" * 32)
        await server.start()
        await server.stop()
        return 0 if server.node.orders is None else server.node.orders.revision

    assert asyncio.run(again()) == 1
    (tmp_path / "orders.msgpack").write_bytes(saved[:-1] + bytes([saved[-1] ^ 1]))
    assert asyncio.run(again()) == 0


def test_orders_are_on_the_disk_before_anybody_hears_what_follows_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        server = LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), b"k" * 32)
        await server.start()
        saved = list[bytes | None]()

        def send(_server: str, _frame: bytes) -> None:
            saved.append(server._orders_file.load())

        orders = Orders(1, 1, "cloud", (), (), (), server="cloud")
        out = Outputs(mesh=[("e1", b"follows")], orders=orders, orders_document=b"signed")
        try:
            with monkeypatch.context() as patch:
                patch.setattr(server._mesh, "send", send)
                server._do(out)
                assert saved == [b"signed"]
                patch.setattr(server._orders_file, "_path", tmp_path / "nowhere" / "orders")
                server._do(out)
                assert server.metrics.counts["orders_not_saved"] == 1
        finally:
            await server.stop()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "e9"}, "is of cloud 'cloud', not of cloud 'e9'"),
        ({"authority": "01" * 32}, "signed by a key that this site does not know"),
        ({"credential_file": Path("/nowhere")}, "credential /nowhere: cannot be read"),
    ],
)
def test_a_server_whose_documents_do_not_fit_does_not_start(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    config = msgspec.structs.replace(_cloud(tmp_path), **change)
    with pytest.raises(ConfigError, match=complaint):
        LiveServer(config, MemoryHub().link("cloud"), b"k" * 32)


def test_a_server_with_anothers_key_or_a_manager_that_is_none_does_not_start(
    tmp_path: Path,
) -> None:
    config = _cloud(tmp_path)
    _cloud(tmp_path, "other")
    authority = Authority(tmp_path / "keys")
    other = msgspec.structs.replace(config, key_file=authority.server_key_file("other"))
    with pytest.raises(ConfigError, match="is not the key of the server's credential"):
        LiveServer(other, MemoryHub().link("cloud"), b"k" * 32)
    credential = authority.credential_file("other").read_text().strip()
    mesh = MeshConfig("127.0.0.1:1", ManagerEntry("127.0.0.1:2", credential))
    with pytest.raises(ConfigError, match=r"mesh.manager.credential: server 'other' signs nothing"):
        LiveServer(msgspec.structs.replace(config, mesh=mesh), MemoryHub().link("cloud"), b"k" * 32)


def test_a_server_that_starts_on_a_full_disk_wants_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not its configuration that is wrong: exit code 1, not 2."""

    async def is_full(_writer: SpoolWriter) -> None:
        raise SpoolFullError("the spool's disk is full; make room")

    monkeypatch.setattr(SpoolWriter, "start", is_full)

    async def live() -> None:
        await LiveServer(_cloud(tmp_path), MemoryHub().link("cloud"), b"k" * 32).start()

    with pytest.raises(RestartNeededError, match="make room"):
        asyncio.run(live())

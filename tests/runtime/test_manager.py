"""A whole manager: store, mesh in memory, HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario_files import write_scenario
from nearcast.errors import ConfigError, ProcessorError
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime import manager_site
from nearcast.runtime.config import HttpConfig, ManagerConfig, MeshConfig, ServerEntry, SiteConfig
from nearcast.runtime.manager import LiveManager, run_manager
from nearcast.server.mesh_messages import Hello, NewOrders, decode_mesh, encode_mesh
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import Orders

SCENARIO = generate_reloc2021(
    Reloc2021(topics=3, members_per_topic=12.0, servers_per_side=2), seed=1
)
SERVERS = [str(one) for one in SCENARIO.servers.ids.to_pylist()]
CLIENTS = [str(one) for one in SCENARIO.clients.ids.to_pylist()]
TOKEN = "a-secret-of-operators"
ENROLMENT = {"client": CLIENTS[0], "public_key": "07" * 32}


def write_homes(folder: Path, server: str) -> None:
    folder.mkdir(exist_ok=True)
    rows = "".join(f"{client},{server}\n" for client in CLIENTS)
    (folder / "homes.csv").write_text(f"client_id,server_id\n{rows}")


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    write_scenario(SCENARIO, tmp_path / "scenario")
    write_homes(tmp_path / "plan", SERVERS[0])
    (tmp_path / "token").write_text(TOKEN)
    entries = [
        ServerEntry(name, "127.0.0.1", 7100, f"{index:064x}", "127.0.0.1", 7000)
        for index, name in enumerate(SERVERS, start=1)
    ]
    return ManagerConfig(
        role="manager",
        id="manager",
        data=tmp_path / "data",
        key_file=tmp_path / "manager.key",
        mesh=MeshConfig("127.0.0.1:0"),
        site=SiteConfig(scenario=tmp_path / "scenario", plan=tmp_path / "plan"),
        servers=(*entries, ServerEntry("cloud", "127.0.0.1", 7100, "cc" * 32)),
        token_file=tmp_path / "token",
        http=HttpConfig(port=0),
    )


class Site:
    """A running manager and a server that listens to it."""

    def __init__(self, hub: MemoryHub, manager: LiveManager, server: str = SERVERS[1]) -> None:
        self.manager = manager
        self._link, self._channels = hub.link(server), PeerChannels(1)
        self._orders: asyncio.Queue[Orders] = asyncio.Queue()

    async def hello(self, revision: int) -> None:
        await self._link.start(self._on_mesh)
        self._channels.send("manager", encode_mesh(Hello(revision)))
        self._flush()

    async def next_orders(self) -> Orders:
        return await asyncio.wait_for(self._orders.get(), 60)

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = TOKEN
    ) -> tuple[int, Any]:
        assert self.manager.http is not None
        return await asyncio.to_thread(
            ask_http, self.manager.http.address, method, path, body, token
        )

    def _on_mesh(self, _sender: str, data: bytes) -> None:
        for raw in self._channels.receive("manager", data, 0.0):
            message = decode_mesh(raw)
            assert isinstance(message, NewOrders)
            self._orders.put_nowait(message.orders)
        self._flush()

    def _flush(self) -> None:
        for to_server, frame in self._channels.poll(1e12):  # at once, acknowledgements too
            self._link.send(to_server, frame)


def ask_http(
    address: tuple[str, int], method: str, path: str, body: Any, token: str
) -> tuple[int, Any]:
    connection = HTTPConnection(*address, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, content if path == "/metrics" else json.loads(content)
    finally:
        connection.close()


def run_site(config: ManagerConfig, play: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        hub, stop = MemoryHub(), asyncio.Event()
        started: asyncio.Queue[LiveManager | None] = asyncio.Queue()
        running = asyncio.ensure_future(
            run_manager(config, hub.link("manager"), stop, started.put_nowait)
        )
        running.add_done_callback(lambda _running: started.put_nowait(None))
        manager = await started.get()
        try:
            if manager is not None:
                await play(Site(hub, manager))
        finally:
            stop.set()
            await running

    asyncio.run(run())


def test_servers_get_orders_and_hear_of_clients_and_plans(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(0)
        first = await site.next_orders()
        assert (first.revision, first.plan_version, first.clients) == (1, 1, ())
        assert [one.server for one in first.servers] == [*SERVERS, "cloud"]

        status, answer = await site.ask("POST", "/clients", ENROLMENT)
        assert (status, answer["client"], answer["delays_ms"]) == (200, CLIENTS[0], {})
        assert answer["home"] == {
            "host": "127.0.0.1",
            "port": 7000,
            "server_key": f"{1:064x}",
        }
        assert await site.ask("GET", f"/clients/{CLIENTS[0]}") == (200, answer)
        second = await site.next_orders()
        assert [(one.client, one.home) for one in second.clients] == [(CLIENTS[0], SERVERS[0])]

        folder = config.site.scenario.parent / "better"
        write_homes(folder, SERVERS[1])
        assert await site.ask("POST", "/plans", {"plan": str(folder)}) == (200, {"plan_version": 2})
        third = await site.next_orders()
        assert (third.revision, third.plan_version) == (3, 2)
        assert [one.home for one in third.clients] == [SERVERS[1]]

    run_site(config, play)


def test_a_manager_that_starts_again_knows_all_it_knew(config: ManagerConfig) -> None:
    async def first_life(site: Site) -> None:
        await site.ask("POST", "/clients", ENROLMENT)
        folder = config.site.scenario.parent / "better"
        write_homes(folder, SERVERS[1])
        await site.ask("POST", "/plans", {"plan": str(folder)})

    async def second_life(site: Site) -> None:
        await site.hello(0)
        orders = await site.next_orders()
        assert (orders.revision, orders.plan_version) == (3, 2)
        assert [(one.client, one.home) for one in orders.clients] == [(CLIENTS[0], SERVERS[1])]

    run_site(config, first_life)
    run_site(config, second_life)


def test_processors_change_on_a_running_site_and_stay_after_a_restart(
    config: ManagerConfig,
) -> None:
    rules = [{"pattern": "traffic/#", "processor": "echo"}]

    async def change(site: Site) -> None:
        await site.hello(0)
        assert (await site.next_orders()).processors == ()
        assert await site.ask("PUT", "/processors", rules) == (200, {"revision": 2})
        assert (await site.next_orders()).processors == (ProcessorRule("traffic/#", "echo"),)
        assert (await site.ask("PUT", "/processors", rules, token="guess"))[0] == 401

    async def later(site: Site) -> None:
        await site.hello(0)
        assert (await site.next_orders()).processors == (ProcessorRule("traffic/#", "echo"),)

    run_site(config, change)
    run_site(config, later)


def test_a_server_ahead_of_the_manager_is_overtaken(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(41)
        while (orders := await site.next_orders()).revision < 41:
            pass
        assert orders.revision == 42

    async def later(site: Site) -> None:
        assert (await site.ask("GET", "/status"))[1]["revision"] == 42

    run_site(config, play)
    run_site(config, later)


def test_operators_see_status_health_and_metrics(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(1)
        await site.ask("POST", "/clients", ENROLMENT)
        await site.next_orders()
        status, content = await site.ask("GET", "/status")
        assert status == 200
        assert content["counts"]["servers_up"] == 1
        assert content["counts"]["clients_planned"] == len(CLIENTS)
        assert [one["version"] for one in content["plans"]] == [1]
        assert await site.ask("GET", "/health") == (200, {"status": "ok"})
        assert b"nearcast_manager_clients_enrolled 1\n" in (await site.ask("GET", "/metrics"))[1]

    run_site(config, play)


def test_a_bad_request_is_told_and_changes_nothing(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        assert (await site.ask("POST", "/clients", ENROLMENT, token="guess"))[0] == 401
        status, answer = await site.ask("POST", "/clients", {**ENROLMENT, "public_key": "07"})
        assert (status, "has 1 bytes, not 32" in answer["error"]) == (400, True)
        status, answer = await site.ask("POST", "/plans", {"plan": "/nowhere"})
        assert (status, answer["error"]) == (400, "/nowhere: there is no such plan folder")
        status, answer = await site.ask("GET", "/status")
        assert (answer["revision"], answer["counts"]["clients_enrolled"]) == (1, 0)

    run_site(config, play)


def test_many_clients_enrol_at_once_and_all_are_told_to_the_servers(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(1)
        bodies = [
            {"client": name, "public_key": f"{number:064x}"} for number, name in enumerate(CLIENTS)
        ]
        answers = await asyncio.gather(*(site.ask("POST", "/clients", body) for body in bodies))
        assert {status for status, _ in answers} == {200}
        while len((orders := await site.next_orders()).clients) < len(CLIENTS):
            pass
        assert {one.client for one in orders.clients} == set(CLIENTS)

    run_site(config, play)


def test_a_port_in_use_and_a_wrong_processor_are_clear_errors(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        assert site.manager.http is not None
        other = msgspec.structs.replace(
            config,
            data=config.data / "other",
            http=HttpConfig(port=site.manager.http.address[1]),
        )
        with pytest.raises(ConfigError, match="another program uses it"):
            await run_manager(other, MemoryHub().link("manager"), asyncio.Event())

    run_site(config, play)
    wrong = msgspec.structs.replace(config.site, processors=(ProcessorRule("#", "nonsense"),))
    with pytest.raises(ProcessorError, match="there is no processor 'nonsense'"):
        run_site(msgspec.structs.replace(config, site=wrong), play)


def test_a_manager_that_still_plans_can_be_stopped(
    config: ManagerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning, go_on = threading.Event(), threading.Event()

    def plan_for_ever(_config: ManagerConfig) -> Any:
        planning.set()
        go_on.wait(60)

    monkeypatch.setattr(manager_site, "_read_site", plan_for_ever)

    async def run() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(run_manager(config, MemoryHub().link("manager"), stop))
        await asyncio.to_thread(planning.wait, 60)
        stop.set()
        await running

    asyncio.run(run())
    assert not go_on.is_set()
    go_on.set()

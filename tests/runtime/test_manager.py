"""A whole manager: store, mesh in memory, HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario_files import write_scenario
from nearcast.errors import ConfigError, ProcessorError, TrustError
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime import plan_reader
from nearcast.runtime.config import (
    EnrolmentConfig,
    HttpConfig,
    ManagerConfig,
    MeshConfig,
    ServerEntry,
    SiteConfig,
)
from nearcast.runtime.helper_process import HelperProcess
from nearcast.runtime.manager import LiveManager, run_manager
from nearcast.runtime.manager_plans import AskedPlan
from nearcast.runtime.trust_files import read_credential
from nearcast.sdk.credentials import new_private_key
from nearcast.sdk.enrolment import read_answer
from nearcast.server.mesh_messages import (
    ClientIs,
    Hello,
    LoadReport,
    NewOrders,
    WhereIs,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.signed_orders import read_orders
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.site.authority import Authority
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_plane import SitePlane, issue_plane
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.noise import public_key
from small_site.keys import make_keys

SCENARIO = generate_reloc2021(
    Reloc2021(topics=3, members_per_topic=12.0, servers_per_side=2), seed=1
)
SERVERS = [str(one) for one in SCENARIO.servers.ids.to_pylist()]
CLIENTS = [str(one) for one in SCENARIO.clients.ids.to_pylist()]
TOKEN = "a-secret-of-operators"
ENROL_TOKEN = "a-secret-for-enrolment"
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
    (tmp_path / "enrol-token").write_text(ENROL_TOKEN)
    authority = make_keys(tmp_path / "keys", SERVERS)
    entries = [
        ServerEntry(name, "127.0.0.1", 7100, authority.credential_file(name), "127.0.0.1", 7000)
        for name in SERVERS
    ]
    cloud = ServerEntry("cloud", "127.0.0.1", 7100, authority.credential_file("cloud"))
    return ManagerConfig(
        role="manager",
        id="manager",
        data=tmp_path / "data",
        key_file=authority.server_key_file("manager"),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file("manager"),
        signing_key_file=authority.signing_key_file("manager"),
        mesh=MeshConfig("127.0.0.1:0"),
        site=SiteConfig(scenario=tmp_path / "scenario", plan=tmp_path / "plan"),
        servers=(*entries, cloud),
        token_file=tmp_path / "token",
        enrol_token_file=tmp_path / "enrol-token",
        revocations_file=authority.revocations_file,
        enrolment=EnrolmentConfig(("a/#",), ("#",), clients_per_s=0.6),
        http=HttpConfig(port=0),
    )


class Site:
    """A running manager and a server that listens to it."""

    def __init__(
        self,
        hub: MemoryHub,
        manager: LiveManager,
        config: ManagerConfig,
        server: str = SERVERS[1],
    ) -> None:
        self.manager, self._server = manager, server
        self.trust = SiteTrust(bytes.fromhex(config.authority))
        self.trust.add_signer(read_credential(config.credential_file), 0.0)
        self._link, self._channels = hub.link(server), PeerChannels(1)
        self._orders: asyncio.Queue[Orders] = asyncio.Queue()
        self._answers: asyncio.Queue[ClientIs] = asyncio.Queue()

    async def hello(self, revision: int) -> None:
        await self._link.start(self._on_mesh)
        self._channels.send("manager", encode_mesh(Hello(revision)))
        self._flush()

    def report(self, revision: int, revocations: bytes) -> None:
        report = LoadReport(revision, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0.0, revocations)
        self._channels.send("manager", encode_mesh(report))
        self._flush()

    async def where_is(self, client: str) -> ClientOrder | None:
        self._channels.send("manager", encode_mesh(WhereIs(client)))
        self._flush()
        return (await asyncio.wait_for(self._answers.get(), 60)).order

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
            if isinstance(message, ClientIs):
                self._answers.put_nowait(message)
                continue
            assert isinstance(message, NewOrders)
            orders = read_orders(message.document, self.trust, self._server)
            self.trust.revoke(orders.revocations) if orders.revocations else ()
            self._orders.put_nowait(orders)
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
                await play(Site(hub, manager, config))
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
        assert (first.server, first.topics, first.moved) == (SERVERS[1], (), {})

        status, answer = await site.ask("POST", "/clients", ENROLMENT)
        assert status == 200
        (client,) = answer["clients"]
        document = bytes.fromhex(client["credential"])
        credential = site.trust.client(document, b"\7" * 32, 0.0)
        assert (credential.client, credential.rights.publish) == (CLIENTS[0], ("a/#",))
        home = answer["servers"][client["home"]]
        assert (client["home"], home["port"]) == (SERVERS[0], 7000)
        assert site.trust.server(bytes.fromhex(home["credential"]), 0.0).server == SERVERS[0]
        assert set(client["ways"]) == set(SERVERS[1:])
        assert await site.ask("GET", f"/clients/{CLIENTS[0]}") == (200, answer)

        folder = config.site.scenario.parent / "better"
        write_homes(folder, SERVERS[1])
        assert await site.ask("POST", "/plans", {"plan": str(folder)}) == (200, {"plan_version": 2})
        second = await site.next_orders()
        assert (second.revision, second.plan_version) == (2, 2)
        assert {one.client for one in second.clients} == set(CLIENTS)
        assert {one.home for one in second.clients} == {SERVERS[1]}
        assert {one.version for one in second.topics} == {2}
        assert {one.moved_from for one in second.topics} == {(SERVERS[0],)}

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
        assert (orders.revision, orders.plan_version) == (2, 2)
        assert {one.home for one in orders.clients} == {SERVERS[1]}
        status, answer = await site.ask("GET", f"/clients/{CLIENTS[0]}")
        assert (status, answer["clients"][0]["home"]) == (200, SERVERS[1])

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
        metrics = (await site.ask("GET", "/metrics"))[1].decode()
        for reason in ("enrolment_wrong_token", "enrolment_invalid", "operation_invalid"):
            assert f'refused_requests_total{{reason="{reason}"}} 1\n' in metrics

    run_site(config, play)


def test_a_server_asks_for_a_client_that_no_plan_knows(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(1)
        at = {"x_km": float(SCENARIO.servers.x_km[1]), "y_km": float(SCENARIO.servers.y_km[1])}
        asked = [{"client": f"new{n}", "public_key": f"{n:064x}", **at} for n in range(20)]
        answers = await asyncio.gather(*(site.ask("POST", "/clients", one) for one in asked))
        assert {status for status, _ in answers} == {200}
        found = await site.where_is("new7")
        assert found is not None
        assert (found.client, found.home) == ("new7", SERVERS[1])
        assert await site.where_is("nobody") is None

    run_site(config, play)


def test_an_enrolment_token_enrols_new_clients_only_and_not_too_many(
    config: ManagerConfig,
) -> None:
    async def play(site: Site) -> None:
        async def enrol(**asked: Any) -> tuple[int, Any]:
            return await site.ask("POST", "/clients", ENROLMENT | asked, token=ENROL_TOKEN)

        assert (await enrol())[0] == 200
        assert (await enrol())[0] == 200  # the same key again
        status, said = await enrol(public_key="08" * 32)
        assert (status, "only an operator" in said["error"]) == (403, True)
        status, said = await enrol(client=CLIENTS[1], public_key="08" * 32, rights=[["b"], []])
        assert (status, "no right to publish 'b'" in said["error"]) == (403, True)
        assert (await site.ask("POST", "/revocations", {}, token=ENROL_TOKEN))[0] == 403
        await site.ask("POST", "/revocations", {"kind": "client", "name": CLIENTS[2]})
        status, said = await enrol(client=CLIENTS[2], public_key="0a" * 32)
        assert (status, "was revoked" in said["error"]) == (403, True)
        replaced = ENROLMENT | {"public_key": "09" * 32}
        assert (await site.ask("POST", "/clients", replaced))[0] == 200
        answers = [await enrol(client=CLIENTS[3], public_key="0b" * 32) for _ in range(9)]
        assert 429 in {status for status, _ in answers}

    run_site(config, play)


def test_clients_are_told_where_on_the_earth_the_site_lies(config: ManagerConfig) -> None:
    file = config.site.scenario / "scenario.json"
    place = {"latitude": 48.1, "longitude": 11.5, "west_km": 1.0, "south_km": 2.0}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"projection": place}))
    key = new_private_key()
    asked = {"client": CLIENTS[0], "public_key": public_key(key).hex()}
    found: list[Any] = []

    async def play(site: Site) -> None:
        found.append(await site.ask("POST", "/clients", asked))

    run_site(config, play)
    ((_, answer),) = found
    authority = bytes.fromhex(config.authority)
    enrolled = read_answer(answer, {CLIENTS[0]: key}, authority)
    assert enrolled[CLIENTS[0]].plane == SitePlane(**place)
    other = issue_plane(SigningKey(bytes(32)), SitePlane(0.0, 0.0)).hex()
    with pytest.raises(TrustError):
        read_answer(answer | {"plane": other}, {CLIENTS[0]: key}, authority)


def test_what_is_revoked_is_pushed_at_once_and_a_replaced_key_is(config: ManagerConfig) -> None:
    async def play(site: Site) -> None:
        await site.hello(1)
        _, answer = await site.ask("POST", "/clients", ENROLMENT)
        old = site.trust.client(bytes.fromhex(answer["clients"][0]["credential"]), b"\7" * 32, 0.0)
        _, answer = await site.ask("POST", "/clients", ENROLMENT | {"public_key": "09" * 32})
        orders = await site.next_orders()
        assert orders.revocations
        assert not site.trust.is_valid(old, 0.0)
        new = bytes.fromhex(answer["clients"][0]["credential"])
        assert site.trust.client(new, b"\x09" * 32, 0.0).client == CLIENTS[0]
        await site.ask("POST", "/revocations", {"kind": "client", "name": CLIENTS[0]})
        await site.next_orders()
        with pytest.raises(TrustError, match="revoked"):
            site.trust.client(new, b"\x09" * 32, 0.0)

    async def later(site: Site) -> None:
        await site.hello(0)
        assert len((await site.next_orders()).revocations) > 0
        assert (await site.ask("GET", "/status"))[1]["counts"]["revocations"] == 1

    run_site(config, play)
    run_site(config, later)


def test_the_authoritys_list_is_taken_over_whenever_it_changes(config: ManagerConfig) -> None:
    assert config.revocations_file is not None
    authority = Authority(config.revocations_file.parent)
    authority.revoke("client", "thief", 1.7e9)

    async def play(site: Site) -> None:
        await site.hello(0)
        while not site.trust.revocations.entries:
            await site.next_orders()
        assert [one.name for one in site.trust.revocations.entries] == ["thief"]
        authority.revoke("server", SERVERS[0], time.time())
        await site.next_orders()
        assert {one.name for one in site.trust.revocations.entries} == {"thief", SERVERS[0]}
        links = {one["server"] for one in (await site.ask("GET", "/status"))[1]["links"]}
        assert SERVERS[0] not in links
        authority.server(SERVERS[0], "edge", 1, time.time())
        orders = await site.next_orders()
        credential = site.trust.server(orders.servers[0].credential, 0.0)
        assert credential.server == SERVERS[0]

    run_site(config, play)


def test_a_manager_brought_back_from_an_old_copy_learns_revocations_from_servers(
    config: ManagerConfig,
) -> None:
    kept: list[bytes] = []

    async def before(site: Site) -> None:
        await site.hello(1)
        for name in ("thief", "other"):
            await site.ask("POST", "/revocations", {"kind": "client", "name": name})
            kept.append((await site.next_orders()).revocations)

    async def after(site: Site) -> None:
        site.trust.revoke(kept[-1])
        await site.hello(9)
        site.report(9, kept[-1])
        while (await site.next_orders()).revocations in (b"", *kept):
            pass
        entries = site.trust.revocations.entries
        assert {one.name for one in entries} == {"thief", "other"}

    run_site(config, before)
    for file in config.data.iterdir():
        file.unlink()
    run_site(config, after)


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


def test_a_manager_answers_while_another_plan_is_on_its_way(
    config: ManagerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"plan": str(config.site.plan)}

    async def play(site: Site) -> None:
        await site.hello(0)
        await site.next_orders()
        monkeypatch.setattr(plan_reader, "_MODULE", "runtime.endless_helper")
        adopting = asyncio.ensure_future(site.manager.adopt(AskedPlan(config.site.scenario)))
        await asyncio.sleep(0)
        assert (await site.ask("GET", "/health"))[0] == 200
        assert (await site.ask("POST", "/clients", ENROLMENT))[0] == 200
        thief = {"kind": "client", "name": "thief"}
        assert await site.ask("POST", "/revocations", thief) == (200, {"version": 1})
        assert (await site.next_orders()).plan_version == 1
        assert (await site.where_is(CLIENTS[0])) is not None
        status, answer = await site.ask("POST", "/plans", plan)
        assert (status, "another plan is being adopted" in answer["error"]) == (429, True)
        adopting.cancel()
        await asyncio.wait([adopting])
        monkeypatch.undo()
        # nothing is left of the one that was given up, and all that came meanwhile stays
        assert await site.ask("POST", "/plans", plan) == (200, {"plan_version": 2})
        orders = await site.next_orders()
        assert (orders.plan_version, orders.revision) == (2, 3)
        assert orders.revocations

    run_site(config, play)


def test_a_process_that_dies_over_a_plan_leaves_the_old_one(
    config: ManagerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(site: Site) -> None:
        monkeypatch.setattr(plan_reader, "_MODULE", "nearcast.no_such_module")
        status, answer = await site.ask("POST", "/plans", {"plan": str(config.site.plan)})
        assert (status, answer["error"]) == (400, "the plan cannot be read: its process died")
        assert site.manager.status()["plan_version"] == 1

    run_site(config, play)


def test_a_manager_that_still_plans_can_be_stopped(
    config: ManagerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_reader, "_MODULE", "runtime.endless_helper")
    planning = asyncio.Event()

    class Noted(HelperProcess):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            planning.set()

    monkeypatch.setattr(plan_reader, "HelperProcess", Noted)

    async def run() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(run_manager(config, MemoryHub().link("manager"), stop))
        await planning.wait()
        stop.set()
        await running

    asyncio.run(run())

"""What a manager runs after its first start, after later ones, and after its files changed."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario, write_scenario
from nearcast.errors import ConfigError, PlanError, PlanningError, ScenarioError
from nearcast.runtime.config import ManagerConfig, MeshConfig, ServerEntry, SiteConfig
from nearcast.runtime.manager_plans import AskedPlan
from nearcast.runtime.manager_site import open_site, prepare_another_plan
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.plan_preparation import PreparedPlan
from nearcast.server.manager_state import ManagerState, with_plan, with_processors
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.authority import Authority
from small_site.keys import make_keys

SCENARIO = generate_reloc2021(
    Reloc2021(topics=3, members_per_topic=12.0, servers_per_side=2), seed=1
)
THRESHOLD, ECHO = ProcessorRule("a/#", "threshold"), ProcessorRule("#", "echo")
SERVERS = [str(one) for one in SCENARIO.servers.ids.to_pylist()]
CLIENTS = [str(one) for one in SCENARIO.clients.ids.to_pylist()]


def write_homes(folder: Path, server: str) -> None:
    """Write a plan by hand: everybody at home on one server."""
    folder.mkdir(exist_ok=True)
    rows = "".join(f"{client},{server}\n" for client in CLIENTS)
    (folder / "homes.csv").write_text(f"client_id,server_id\n{rows}")


def site_config(folder: Path, **site: Any) -> ManagerConfig:
    keys = folder / "keys"
    authority = Authority(keys) if keys.exists() else make_keys(keys, SERVERS)
    entries = [
        ServerEntry(name, "127.0.0.1", 7100, authority.credential_file(name), "127.0.0.1", 7000)
        for name in SERVERS
    ]
    cloud = ServerEntry("cloud", "127.0.0.1", 7100, authority.credential_file("cloud"))
    return ManagerConfig(
        role="manager",
        id="manager",
        data=folder / "data",
        key_file=authority.server_key_file("manager"),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file("manager"),
        signing_key_file=authority.signing_key_file("manager"),
        mesh=MeshConfig("127.0.0.1:0"),
        site=SiteConfig(**{"scenario": folder / "scenario", "plan": folder / "plan", **site}),
        servers=(*entries, cloud),
        token_file=folder / "token",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_scenario(SCENARIO, tmp_path / "scenario")
    write_homes(tmp_path / "plan", SERVERS[0])
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ManagerStore]:
    store = ManagerStore(tmp_path / "data" / "manager.db")
    yield store
    store.close()


def open_now(config: ManagerConfig, store: ManagerStore) -> ManagerState:
    state = asyncio.run(open_site(config, store, 1e9))
    assert store.load() == state
    return state


def homes(store: ManagerStore) -> dict[str, str]:
    """Return the homes of the scenario's clients, as the store has them."""
    found = {name: store.clients.find(name) for name in CLIENTS}
    return {name: one.home for name, one in found.items() if one is not None}


def test_a_server_with_the_credential_or_the_key_of_another_is_refused(
    folder: Path, store: ManagerStore
) -> None:
    config = site_config(folder)
    first, second, *rest = config.servers
    wrong = msgspec.structs.replace(first, credential_file=second.credential_file)
    with pytest.raises(ConfigError, match=f"is of '{second.id}', not '{first.id}'"):
        open_now(msgspec.structs.replace(config, servers=(wrong, second, *rest)), store)
    authority = Authority(folder / "keys")
    key = authority.server_key_file(first.id).read_text()
    authority.server_key_file(second.id).write_text(key)
    authority.server(second.id, "edge", 1, 1.7e9)
    with pytest.raises(ConfigError, match="have the same key"):
        open_now(config, store)
    first.credential_file.write_text("nonsense")
    with pytest.raises(ConfigError, match="must hold hex digits"):
        open_now(config, store)


def test_the_first_start_reads_the_files(folder: Path, store: ManagerStore) -> None:
    state = open_now(site_config(folder), store)
    assert (state.revision, [one.version for one in state.versions]) == (1, [1])
    assert homes(store) == dict.fromkeys(CLIENTS, SERVERS[0])
    assert {topic.planned.edge_brokers for topic in state.topics} == {(SERVERS[0],)}
    assert list(state.servers) == [*SERVERS, "cloud"]
    second = state.servers[SERVERS[1]]
    assert second.place_km == (SCENARIO.servers.x_km[1], SCENARIO.servers.y_km[1])
    assert second.storage == SCENARIO.servers.storage[1]
    assert (
        second.order.public_key
        == Authority(folder / "keys").register.known("server", SERVERS[1]).server().public_key
    )


def test_later_starts_need_no_files(folder: Path, store: ManagerStore) -> None:
    state = open_now(site_config(folder), store)
    assert open_now(site_config(folder), store) == state
    shutil.rmtree(folder / "plan")
    shutil.rmtree(folder / "scenario")
    assert open_now(site_config(folder), store) == state


def test_another_plan_in_the_folder_is_the_next_version(folder: Path, store: ManagerStore) -> None:
    open_now(site_config(folder), store)
    write_homes(folder / "plan", SERVERS[2])
    state = open_now(site_config(folder), store)
    assert (state.revision, [one.version for one in state.versions]) == (2, [1, 2])
    assert homes(store) == dict.fromkeys(CLIENTS, SERVERS[2])
    assert store.clients.left(SERVERS[0]) == homes(store)
    assert {(one.version, one.moved_from) for one in state.topics} == {(2, (SERVERS[0],))}


def test_another_address_or_processor_is_a_new_revision_of_the_same_plan(
    folder: Path, store: ManagerStore
) -> None:
    config = site_config(folder)
    open_now(config, store)
    moved = msgspec.structs.replace(config.servers[0], port=7999)
    config = msgspec.structs.replace(config, servers=(moved, *config.servers[1:]))
    state = open_now(config, store)
    assert (state.revision, len(state.versions)) == (2, 1)
    assert state.servers[SERVERS[0]].order.port == 7999
    config = msgspec.structs.replace(
        config, site=msgspec.structs.replace(config.site, processors=(THRESHOLD,))
    )
    assert open_now(config, store).revision == 3
    assert open_now(config, store).revision == 3
    assert open_now(config, store).processors == (THRESHOLD,)


def test_processors_set_by_an_operator_stay_until_the_configuration_has_others(
    folder: Path, store: ManagerStore
) -> None:
    config = site_config(folder, processors=(THRESHOLD,))
    state = with_processors(open_now(config, store), [ECHO])
    store.save_processors(state)
    assert open_now(config, store) == state
    write_homes(folder / "plan", SERVERS[2])  # another plan is no other processor
    assert open_now(config, store).processors == (ECHO,)
    assert open_now(site_config(folder), store).processors == ()
    assert open_now(config, store).processors == (THRESHOLD,)


def test_without_a_plan_the_manager_plans(folder: Path, store: ManagerStore) -> None:
    config = site_config(folder, plan=None, model="ratio", method="nearest")
    state = open_now(config, store)
    nearest = _nearest_servers(SCENARIO)
    assert homes(store) == nearest
    assert (state.versions[0].model, state.versions[0].method) == ("ratio", "nearest")
    assert state.versions[0].cost is not None
    assert open_now(config, store) == state
    again = site_config(folder, plan=None, model="ratio", method="random")
    assert open_now(again, store).versions[-1].method == "random"


def _nearest_servers(scenario: Scenario) -> dict[str, str]:
    servers = list(zip(scenario.servers.x_km, scenario.servers.y_km, SERVERS, strict=True))
    clients = zip(CLIENTS, scenario.clients.x_km, scenario.clients.y_km, strict=True)
    return {
        client: min((math.dist((x, y), (at_x, at_y)), name) for at_x, at_y, name in servers)[1]
        for client, x, y in clients
    }


def test_a_missing_scenario_is_named(tmp_path: Path, store: ManagerStore) -> None:
    with pytest.raises(ScenarioError, match="no such scenario"):
        open_now(site_config(tmp_path), store)


@pytest.mark.parametrize(
    ("site", "error", "complaint"),
    [
        ({"plan": None, "model": "magic"}, ConfigError, "there is no model 'magic'"),
        ({"plan": None, "method": "magic"}, PlanningError, "there is no method 'magic'"),
        ({"cloud": "sky"}, ConfigError, "server 'cloud' .* is not in the scenario"),
        ({"cloud": SERVERS[0]}, ConfigError, "so is an edge server"),
    ],
)
def test_a_site_that_cannot_be_is_refused(
    folder: Path, store: ManagerStore, site: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        open_now(site_config(folder, **site), store)
    assert store.load() is None


def test_an_edge_server_needs_an_address_for_clients(folder: Path, store: ManagerStore) -> None:
    config = site_config(folder)
    bare = msgspec.structs.replace(config.servers[0], host="", port=0)
    config = msgspec.structs.replace(config, servers=(bare, *config.servers[1:]))
    with pytest.raises(ConfigError, match="needs host and port for clients"):
        open_now(config, store)


def test_a_server_cannot_be_called_like_the_manager(folder: Path, store: ManagerStore) -> None:
    config = msgspec.structs.replace(site_config(folder), id=SERVERS[0])
    with pytest.raises(ConfigError, match="the manager is called"):
        open_now(config, store)


def test_a_plan_of_another_scenario_is_refused(folder: Path, store: ManagerStore) -> None:
    config = site_config(folder)
    open_now(config, store)
    state = store.load()
    assert state is not None
    write_homes(folder / "other", SERVERS[3])

    def prepare(plan: str, scenario: Path | None = None) -> PreparedPlan:
        asked, state = AskedPlan(folder / plan, scenario), store.load()
        assert state is not None
        return asyncio.run(prepare_another_plan(config.site, asked, store, state, 1e9))

    prepared = prepare("other")
    assert homes(store) == dict.fromkeys(CLIENTS, SERVERS[0])  # not in force yet
    store.adopt(with_plan(state, state.servers, prepared.topics, prepared.version), prepared.stored)
    assert homes(store) == dict.fromkeys(CLIENTS, SERVERS[3])
    with pytest.raises(PlanError, match="no such plan folder"):
        prepare("nowhere")
    scenario = read_scenario(folder / "scenario")
    changed = generate_reloc2021(Reloc2021(topics=3, servers_per_side=2), seed=2)
    write_scenario(changed, folder / "scenario", overwrite=True)
    with pytest.raises(PlanError, match="the scenario changed"):
        prepare("other")
    # one that brings its scenario needs the servers of the site, and nothing else
    moved = replace(scenario.clients, x_km=scenario.clients.x_km + 0.1)
    write_scenario(replace(scenario, clients=moved), folder / "today")
    assert prepare("other", folder / "today").servers == state.servers
    write_scenario(
        generate_reloc2021(Reloc2021(topics=3, servers_per_side=3), seed=2), folder / "larger"
    )
    with pytest.raises(PlanError, match="do not both have server"):
        prepare("other", folder / "larger")

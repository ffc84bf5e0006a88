"""The site that a manager runs: from its store, or from files when these are new to the store."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from nearcast.domain.columns import Place
from nearcast.domain.json_files import read_json_object
from nearcast.domain.output_folder import PLAN_FILE, SCENARIO_FILE
from nearcast.errors import AreaError, ConfigError, PlanError, TrustError
from nearcast.runtime.config import ManagerConfig, SiteConfig
from nearcast.runtime.manager_plans import AskedPlan
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.plan_preparation import PreparedPlan, prepare_plan
from nearcast.runtime.trust_files import read_credential
from nearcast.server.manager_state import ManagerState, SiteServer, coverage_order, with_plan
from nearcast.server.orders_from_plan import check_servers
from nearcast.server.roaming import coverage_of
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import ServerCredential, read_body
from nearcast.trust.signed import read_signed
from nearcast.trust.site_plane import plane_of_extra

__all__ = [
    "open_site",
    "prepare_another_plan",
    "server_orders",
    "with_addresses",
]

_log = logging.getLogger(__name__)


async def open_site(config: ManagerConfig, store: ManagerStore, now: float) -> ManagerState:
    """Return the site, durable in the store.

    Scenario and plan are read on the first start, and when their files changed since; later
    starts need no files. Addresses always come from the configuration; processors when it changed,
    else they are those that an operator has set since.

    Raises
    ------
    NearcastError
        When a file or the configuration is wrong, or no plan can be made.
    """
    state = store.load()
    try:
        source = _digest_of_files(config.site)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from None
    orders = server_orders(config)
    site = config.site
    settings = _digest((site.cloud, orders, site.roaming, site.coverage))
    processors = _digest(config.site.processors)
    if state is None or source not in (None, store.fact("source")):
        plan = await prepare_plan(
            config.site,
            config.site.plan,
            store,
            state,
            now,
            with_addresses=lambda servers: with_addresses(servers, config, orders),
        )
        state = with_plan(state, plan.servers, plan.topics, plan.version)
        state = _with_configured_processors(state, config, store)
        facts = {"source": source or "", "settings": settings, "scenario": plan.scenario}
        facts["plane"] = _plane_of(config.site)
        store.adopt(state, plan.stored, **facts, configured_processors=processors)
        _log.info("plan_adopted", extra={"fields": {"version": state.versions[-1].version}})
    elif (settings, processors) != (store.fact("settings"), store.fact("configured_processors")):
        servers = with_addresses(state.servers, config, orders)
        state = replace(state, revision=state.revision + 1, servers=servers)
        state = _with_configured_processors(state, config, store)
        store.save_servers(state, settings=settings, configured_processors=processors)
        _log.info("settings_changed", extra={"fields": {"revision": state.revision}})
    if site.roaming:
        try:
            coverage_of(coverage_order(state.servers, site.coverage))
        except AreaError as error:
            raise ConfigError(f"site.coverage: {error}") from None
    return state


async def prepare_another_plan(
    site: SiteConfig, asked: AskedPlan, store: ManagerStore, state: ManagerState, now: float
) -> PreparedPlan:
    """Prepare another plan, for the servers that the site has.

    It is one of the scenario that the site runs, or brings a scenario of its own, in which
    clients have other places and topics: then no later start knows more than the plan itself.

    Raises
    ------
    NearcastError
        When the plan does not fit, the site's scenario is no longer the one that is known, or
        the plan's own has other servers.
    """

    def same_servers(servers: Mapping[str, SiteServer]) -> Mapping[str, SiteServer]:
        edges = {name for name, one in state.servers.items() if one.place_km is not None}
        if edges != servers.keys():
            other = min(edges ^ servers.keys())
            raise PlanError(f"the site and the plan's scenario do not both have server {other!r}")
        return state.servers

    if asked.scenario is not None:
        site = msgspec.structs.replace(site, scenario=asked.scenario)
    return await prepare_plan(
        site,
        asked.plan,
        store,
        state,
        now,
        with_addresses=same_servers,
        scenario_known=None if asked.scenario is not None else str(store.fact("scenario")),
    )


def server_orders(config: ManagerConfig) -> dict[str, ServerOrder]:
    """Return the servers as the configuration and their credentials name them.

    Raises
    ------
    ConfigError
        When a credential is of another server; whether it still counts is asked later.
    """
    orders: dict[str, ServerOrder] = {}
    for one in config.servers:
        document = read_credential(one.credential_file)
        try:
            credential = read_body(read_signed(document).body, ServerCredential)
        except TrustError as error:
            raise ConfigError(f"credential {one.credential_file}: {error}") from None
        if credential.server != one.id:
            raise ConfigError(
                f"credential {one.credential_file}: is of {credential.server!r}, not {one.id!r}"
            )
        orders[one.id] = ServerOrder(
            one.id,
            one.host,
            one.port,
            credential.public_key,
            one.mesh_host,
            one.mesh_port,
            document,
        )
    keys = {order.public_key: name for name, order in orders.items()}
    if len(keys) < len(orders):
        raise ConfigError("two of [[servers]] have the same key; each needs its own")
    return orders


def with_addresses(
    servers: Mapping[str, SiteServer], config: ManagerConfig, orders: Mapping[str, ServerOrder]
) -> dict[str, SiteServer]:
    """Return servers with the addresses and keys of the configuration, the cloud server added."""
    cloud = config.site.cloud
    edges = {name: server for name, server in servers.items() if server.place_km is not None}
    check_servers(edges, orders.values(), cloud)
    if config.id in orders:
        raise ConfigError(f"id: the manager is called {config.id!r}, and so is a server")
    for name in edges:
        if not (orders[name].host and orders[name].port):
            raise ConfigError(f"server {name!r} of [[servers]] needs host and port for clients")
    found = {name: replace(server, order=orders[name]) for name, server in edges.items()}
    return {**found, cloud: SiteServer(orders[cloud])}


def _with_configured_processors(
    state: ManagerState, config: ManagerConfig, store: ManagerStore
) -> ManagerState:
    """Return the state with the configuration's processors, if it has others than last time."""
    rules = config.site.processors
    is_new = _digest(rules) != store.fact("configured_processors")
    return replace(state, processors=rules) if is_new else state


def _plane_of(site: SiteConfig) -> str:
    """Return where on the earth the scenario says that it lies, as JSON; empty: it does not say."""
    file = site.scenario / SCENARIO_FILE
    try:
        plane = plane_of_extra(read_json_object(file, Place(str(file))).get("projection"))
    except TrustError as error:
        raise ConfigError(f"{file}: {error}") from None
    return "" if plane is None else msgspec.json.encode(plane).decode()


def _digest(settings: Any) -> str:
    """Return a digest of something that orders take from the configuration."""
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()


def _digest_of_files(site: SiteConfig) -> str | None:
    """Return a digest of scenario and plan as they are on disk; None where one is missing."""
    digest = hashlib.sha256(f"{site.model} {site.method}".encode() if site.plan is None else b"")
    folders = [(site.scenario, SCENARIO_FILE)]
    if site.plan is not None:
        folders.append((site.plan, PLAN_FILE))
    for folder, description in folders:
        if not folder.is_dir():
            return None
        for path in sorted(folder.iterdir()):
            if path.name == description or path.suffix in (".csv", ".parquet"):
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()

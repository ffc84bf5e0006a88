"""The site that a manager runs: from its store, or from files when these are new to the store."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.output_folder import PLAN_FILE, SCENARIO_FILE
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import read_plan, report_to_json
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError, PlanError, TrustError
from nearcast.links.daemon_thread import in_daemon_thread
from nearcast.planning.request import PlanRequest, Progress
from nearcast.runtime.config import ManagerConfig, SiteConfig
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.trust_files import read_credential
from nearcast.server.manager_state import ManagerState, PlanVersion, SiteServer, with_site
from nearcast.server.orders_from_plan import SitePlan, check_servers, name_plan, names_of
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import ServerCredential, read_body
from nearcast.trust.signed import read_signed

__all__ = [
    "PlannedSite",
    "open_site",
    "plan_version",
    "read_another_plan",
    "server_orders",
    "with_addresses",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedSite:
    """What the files of a site say."""

    servers: Mapping[str, SiteServer]
    plan: SitePlan
    report: Mapping[str, Any]
    """The content of ``plan.json``."""
    scenario: str
    """The scenario's fingerprint."""


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
    settings = _digest((config.site.cloud, orders))
    processors = _digest(config.site.processors)
    if state is None or source not in (None, store.fact("source")):
        site = await in_daemon_thread(lambda: _read_site(config, orders))
        state = with_site(state, site.servers, site.plan, plan_version(state, site.report, now))
        state = _with_configured_processors(state, config, store)
        facts = {"source": source or "", "settings": settings, "scenario": site.scenario}
        store.save_site(state, site.plan, **facts, configured_processors=processors)
        _log.info("plan_adopted", extra={"fields": {"version": state.versions[-1].version}})
    elif (settings, processors) != (store.fact("settings"), store.fact("configured_processors")):
        servers = with_addresses(state.servers, config, orders)
        state = replace(state, revision=state.revision + 1, servers=servers)
        state = _with_configured_processors(state, config, store)
        store.save_servers(state, settings=settings, configured_processors=processors)
        _log.info("settings_changed", extra={"fields": {"revision": state.revision}})
    return state


def plan_version(state: ManagerState | None, report: Mapping[str, Any], now: float) -> PlanVersion:
    """Return the next version, of a plan with this ``plan.json``."""
    cost, metrics = report.get("cost"), report.get("metrics")
    return PlanVersion(
        version=state.versions[-1].version + 1 if state else 1,
        adopted_at=now,
        model=_text_or_none(report.get("model")),
        method=_text_or_none(report.get("method")),
        cost=float(cost) if isinstance(cost, int | float) else None,
        metrics=metrics if isinstance(metrics, dict) else {},
    )


def read_another_plan(config: ManagerConfig, folder: Path, scenario_known: str) -> PlannedSite:
    """Read another plan of the scenario that the site runs.

    Raises
    ------
    NearcastError
        When the plan does not fit, or the scenario is no longer the one that is known.
    """
    scenario = read_scenario(config.site.scenario)
    if scenario_fingerprint(scenario) != scenario_known:
        raise PlanError(
            "the scenario changed since the manager read it; restart the manager",
            file=str(config.site.scenario),
        )
    return _planned(config, server_orders(config), scenario, folder)


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


def _read_site(config: ManagerConfig, orders: Mapping[str, ServerOrder]) -> PlannedSite:
    scenario = read_scenario(config.site.scenario)
    return _planned(config, orders, scenario, config.site.plan)


def _planned(
    config: ManagerConfig,
    orders: Mapping[str, ServerOrder],
    scenario: Scenario,
    folder: Path | None,
) -> PlannedSite:
    site = config.site
    # complains before the long work
    servers = with_addresses(_servers_of(scenario), config, orders)
    if folder is not None:
        plan, report = read_plan(folder, scenario)
    else:
        from nearcast.planning.solve import make_plan

        outcome = make_plan(scenario, _request(site))
        plan, report = outcome.plan, report_to_json(outcome.report)
    named = name_plan(scenario, plan)
    return PlannedSite(servers, named, report, scenario_fingerprint(scenario))


def _request(site: SiteConfig) -> PlanRequest:
    if site.model not in list(Model):
        raise ConfigError(
            f"site.model: there is no model {site.model!r}; there are: {', '.join(Model)}"
        )
    tenths: dict[str, int] = {}

    def on_progress(progress: Progress) -> None:
        tenth = int(progress.fraction * 10)
        if tenths.get(progress.stage) != tenth:
            tenths[progress.stage] = tenth
            fields = {"stage": progress.stage, "percent": tenth * 10, "cost": progress.cost}
            _log.info("planning", extra={"fields": fields})

    fields = {"model": site.model, "method": site.method}
    _log.info("planning_begins", extra={"fields": fields})
    return PlanRequest(Model(site.model), site.method, on_progress=on_progress)


def _servers_of(scenario: Scenario) -> dict[str, SiteServer]:
    table = scenario.servers
    return {
        name: SiteServer(
            ServerOrder(name, "", 0, b""),
            (float(table.x_km[index]), float(table.y_km[index])),
            float(table.storage[index]),
            float(table.compute[index]),
            float(table.client_limit[index]),
        )
        for index, name in enumerate(names_of(table.ids, "server"))
    }


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


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None

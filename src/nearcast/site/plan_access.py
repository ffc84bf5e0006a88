"""The plan of a running site: what is in force, and the switch to another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np

from nearcast.domain.plan import Model
from nearcast.domain.plan_in_force import PlanInForce
from nearcast.domain.scenario import Scenario
from nearcast.errors import NearcastError, PlanError
from nearcast.links import http_client
from nearcast.planning.flow_use import ShownFlows, decode_shown_flows

__all__ = [
    "ManagerAccess",
    "SitePlanInForce",
    "adopt_plan",
    "read_flows",
    "read_in_force",
    "wait_for_servers",
]

_LOOK_S = 0.25
_ADOPT_WITHIN_S = 600.0
_REPORT_S = 2.5
"""Servers report every two seconds: after that all have said how long streams paused."""


class ManagerAccess(NamedTuple):
    """Where a site's manager answers operators."""

    url: str
    token: str


class SitePlanInForce(NamedTuple):
    """The plan that a site goes by."""

    version: int
    model: Model
    plan: PlanInForce


def read_in_force(manager: ManagerAccess, scenario: Scenario) -> SitePlanInForce:
    """Ask the manager for the plan in force, in the numbers of a scenario of its site.

    Raises
    ------
    NearcastError
        When the manager does not answer, or another plan came into force meanwhile.
    """
    servers, clients, topics = (
        {str(name): index for index, name in enumerate(table.ids.to_pylist())}
        for table in (scenario.servers, scenario.clients, scenario.topics)
    )
    version, model, rows = _read_part(manager, "homes")
    again, _, spools = _read_part(manager, "brokers")
    if again != version:
        raise PlanError(f"plan {again} came into force while plan {version} was read")
    homes = np.full(len(clients), -1, dtype=np.int32)
    left = 0
    for client, server in rows:
        if client in clients and server in servers:
            homes[clients[client]] = servers[server]
        else:
            left += 1
    if left == len(rows):
        raise PlanError("no client of the plan in force is in the site's scenario")
    known = [(topics[a], servers[b]) for a, b in spools if a in topics and b in servers]
    table = np.array(known, dtype=np.int32).reshape(-1, 2)
    joined = int(np.count_nonzero(homes < 0))
    plan = PlanInForce(homes, table[:, 0], table[:, 1], joined, left)
    return SitePlanInForce(version, Model(model or Model.RATIO), plan)


def read_flows(manager: ManagerAccess) -> ShownFlows:
    """Ask the manager where components of flows are."""
    shown = http_client.ask(f"{manager.url}/flows", token=manager.token)
    try:
        return decode_shown_flows({"flows": shown})
    except msgspec.MsgspecError as error:
        raise PlanError(f"{manager.url}/flows is not what a manager says: {error}") from None


def adopt_plan(
    manager: ManagerAccess,
    plan: Path,
    *,
    scenario: Path | None = None,
    instead_of: int | None = None,
) -> int:
    """Have the manager adopt another plan; return its version.

    Parameters
    ----------
    plan, scenario
        Folders that the manager can read; without a scenario the plan is one of the site's.
    instead_of
        The version that must be in force.

    Raises
    ------
    NearcastError
        When the manager refuses it: the plan in force stays.
    """
    body: dict[str, Any] = {"plan": str(plan.resolve())}
    if scenario is not None:
        body["scenario"] = str(scenario.resolve())
    if instead_of is not None:
        body["instead_of"] = instead_of
    url, token = manager
    answer = http_client.ask(f"{url}/plans", body, token, timeout_s=_ADOPT_WITHIN_S)
    version: int = answer["plan_version"]
    return version


def wait_for_servers(
    manager: ManagerAccess,
    version: int,
    timeout_s: float,
    on_progress: Callable[[int, int], None] = lambda done, servers: None,
) -> dict[str, Any]:
    """Wait until all servers have the plan that was adopted; return how streams paused.

    Parameters
    ----------
    on_progress
        Called with how many servers have it, and how many there are.

    Returns
    -------
    dict
        As the manager's status says it: streams, pause_p50_s, pause_p99_s.

    Raises
    ------
    NearcastError
        When servers do not have it in time.
    """
    end = time.monotonic() + timeout_s
    shown = -1
    while True:
        found = http_client.ask(f"{manager.url}/status")
        servers = found["servers"]
        late = [one["id"] for one in servers if one["revision"] < found["revision"]]
        if len(late) != shown:
            shown = len(late)
            on_progress(len(servers) - len(late), len(servers))
        if not late:
            break
        if time.monotonic() > end:
            raise NearcastError(
                f"plan {version} is in force, but these servers do not have it yet: "
                + ", ".join(late)
            )
        time.sleep(_LOOK_S)
    time.sleep(_REPORT_S)
    switch: dict[str, Any] = http_client.ask(f"{manager.url}/status")["switch"]
    return switch


def _read_part(manager: ManagerAccess, part: str) -> tuple[int, str | None, list[tuple[str, str]]]:
    rows: list[tuple[str, str]] = []
    version, after = None, ""
    while True:
        url = f"{manager.url}/plans/in-force/{part}/{quote(after, safe='')}"
        found = http_client.ask(url, token=manager.token)
        if version not in (None, found["plan_version"]):
            raise PlanError(f"another plan than {version} came into force while it was read")
        version = found["plan_version"]
        rows += (tuple(row) for row in found["rows"])
        if found["next"] is None:
            return version, found["model"], rows
        after = found["next"]

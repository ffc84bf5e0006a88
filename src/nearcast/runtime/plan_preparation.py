"""Another plan on its way into the store of a manager, which answers others meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import PlanError
from nearcast.runtime.config import SiteConfig
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.next_plan import NextPlan
from nearcast.runtime.plan_frames import Clients, PlanEnd, PlanRead, PlanTask, ScenarioRead, Topics
from nearcast.runtime.plan_reader import PlanReader
from nearcast.server.manager_state import (
    ManagerState,
    PlanVersion,
    SiteServer,
    SiteTopic,
    next_topics,
)
from nearcast.server.site_orders import ServerOrder

__all__ = ["PreparedPlan", "prepare_plan"]

_log = logging.getLogger(__name__)
CheckServers = Callable[[Mapping[str, SiteServer]], Mapping[str, SiteServer]]
"""Gives the servers of a scenario their addresses, or says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan that is in the store, to the last row, but not in force."""

    servers: Mapping[str, SiteServer]
    topics: tuple[SiteTopic, ...]
    version: PlanVersion
    stored: NextPlan
    scenario: str
    """The scenario's fingerprint."""


async def prepare_plan(
    site: SiteConfig,
    folder: Path | None,
    store: ManagerStore,
    state: ManagerState | None,
    now: float,
    *,
    with_addresses: CheckServers,
    scenario_known: str | None = None,
) -> PreparedPlan:
    """Read or make a plan and write it beside the one in force; only one at a time.

    Whenever this ends early, the plan in force stays; what was written is swept with the next.

    Parameters
    ----------
    folder
        Of the plan; None: make one.
    state
        The site as it is; its topics must be the same until the plan is adopted.
    scenario_known
        The fingerprint that the scenario must have.

    Raises
    ------
    NearcastError
        When a file is wrong, the plan does not fit, or no plan can be made.
    """
    if folder is None:
        fields = {"model": site.model, "method": site.method}
        _log.info("planning_begins", extra={"fields": fields})
    plan_folder = None if folder is None else str(folder)
    task = PlanTask(str(site.scenario), plan_folder, site.model, site.method)
    async with PlanReader(task) as reader:
        reader.ask()
        await _in_slices(store.sweep)  # the process has much to read meanwhile
        read = await reader.answer()
        assert isinstance(read, ScenarioRead)
        if scenario_known not in (None, read.fingerprint):
            raise PlanError(
                "the scenario changed since the manager read it; restart the manager",
                file=str(site.scenario),
            )
        servers = with_addresses(_servers(read))  # complains before the long work
        reader.ask()
        plan = await reader.answer()
        assert isinstance(plan, PlanRead)
        version = _plan_version(state, plan.report, now)
        stored = store.begin_plan(version.version)
        topics = await _write(reader, stored, state, version.version)
    await _in_slices(stored.count_enrolled)
    return PreparedPlan(servers, topics, version, stored, read.fingerprint)


async def _write(
    reader: PlanReader, stored: NextPlan, state: ManagerState | None, version: int
) -> tuple[SiteTopic, ...]:
    known = {one.planned.topic: one for one in state.topics} if state else {}
    topics: list[SiteTopic] = []
    reader.ask()
    while not isinstance(answer := await reader.answer(), PlanEnd):
        reader.ask()
        match answer:
            case Topics(planned):
                some = next_topics(known, planned, version)
                stored.add_topics(some)
                topics += some
            case Clients(rows):
                stored.add(rows)
    return tuple(topics)


async def _in_slices(step: Callable[[], bool]) -> None:
    """Repeat a step while it says that there is more to do; others have their turn between."""
    for _ in iter(step, False):
        await asyncio.sleep(0)


def _servers(read: ScenarioRead) -> dict[str, SiteServer]:
    return {
        one.server: SiteServer(
            ServerOrder(one.server, "", 0, b""),
            (one.x_km, one.y_km),
            one.storage,
            one.compute,
            one.client_limit,
        )
        for one in read.servers
    }


def _plan_version(state: ManagerState | None, report: Mapping[str, Any], now: float) -> PlanVersion:
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


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None

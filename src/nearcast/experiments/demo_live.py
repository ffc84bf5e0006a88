"""One plan of the demo at work: a site runs it, all clients take part, everything is timed."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from nearcast.errors import NearcastError
from nearcast.experiments.live_delays import LiveSettings
from nearcast.planning.solve import PlanOutcome
from nearcast.planning.stopping import Stopwatch
from nearcast.site.layout import SiteOptions
from nearcast.site.live_site import LiveSite, run_site
from nearcast.site.swarm import Swarm, SwarmResult, memberships

__all__ = ["STEPS_OF_A_SITE", "DemoTeller", "MethodRun", "PlannedBy", "run_plan"]

STEPS_OF_A_SITE = 4
_WATCH_EVERY_S = 0.02


class DemoTeller(Protocol):
    """Who wants to know how far the demo is."""

    def begin(self, step: str) -> None:
        """Take note that a step begins, and the one before has ended."""

    def count(self, done: int, total: int) -> None:
        """Take note of how far the step is; may come from another thread."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedBy:
    """A method's plan."""

    method: str
    outcome: PlanOutcome
    folder: Path


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """A plan, and what became of it on the site."""

    planned: PlannedBy
    result: SwarmResult
    own_delay_ms: float
    """How late the clients' process woke up on average: it is part of every measured delay."""
    startup_s: float
    """Until all servers were ready."""
    seconds: float

    @property
    def method(self) -> str:
        """Who planned."""
        return self.planned.method


def run_plan(
    planned: PlannedBy, folder: Path, settings: LiveSettings, teller: DemoTeller
) -> MethodRun:
    """Run a plan of the scenario in ``run/scenario`` of the demo's folder."""
    watch = Stopwatch()
    with _site(planned, folder, settings, teller) as live:
        startup_s = watch.seconds()
        result, own_delay_ms = _measure(live, settings, planned.method, teller)
    return MethodRun(planned, result, own_delay_ms, startup_s, watch.seconds())


@contextmanager
def _site(
    planned: PlannedBy, folder: Path, settings: LiveSettings, teller: DemoTeller
) -> Iterator[LiveSite]:
    """Run a site of its own for a plan: what an earlier demo left must not be in its spools."""
    teller.begin(f"{planned.method}: starting servers")
    place = folder / f"site-{planned.method}"
    if (place / "site.json").exists():
        shutil.rmtree(place)
    servers, ready = planned.outcome.assessment.local_share.size + 2, 0

    def on_ready(_server: str) -> None:
        nonlocal ready
        ready += 1
        teller.count(ready, servers)

    options = SiteOptions(plan=planned.folder, delay_factor=settings.delay_factor)
    with run_site(folder / "run" / "scenario", place, options, on_ready) as live:
        yield live


def _measure(
    live: LiveSite, settings: LiveSettings, method: str, teller: DemoTeller
) -> tuple[SwarmResult, float]:
    """Have all clients connect, subscribe and publish; return what arrived, and the own delay."""
    teller.begin(f"{method}: connecting clients")
    credentials = live.enrol_clients()
    members = memberships(live.scenario)
    subscriptions = sum(one.subscribes for one in members)
    publications = settings.rounds * sum(one.publishes for one in members)
    body = b"x" * settings.payload_bytes

    async def act() -> tuple[SwarmResult, float]:
        async with Swarm(credentials) as swarm:
            await swarm.connect(partial(_count, teller, len(credentials)))
            teller.begin(f"{method}: subscribing")
            await swarm.subscribe(members, partial(_count, teller, subscriptions))
            # a subscription is known to all brokers one trip through the mesh later
            longest_ms = live.scenario.settings.cloud_ms * 2 * settings.delay_factor
            await asyncio.sleep(0.5 + 2 * longest_ms / 1e3)
            teller.begin(f"{method}: publishing")
            lateness_ms: list[float] = []
            watching = asyncio.ensure_future(_watch_lateness(lateness_ms))
            result = await swarm.publish(
                members,
                rounds=settings.rounds,
                rate_hz=settings.rate_hz,
                payload=lambda one, at: body,
                settle_s=10.0 + 4 * longest_ms / 1e3,
                seed=settings.seed,
                on_count=partial(_count, teller, publications),
            )
            watching.cancel()
            return result, sum(lateness_ms) / max(1, len(lateness_ms))

    import uvloop

    result, own_delay_ms = uvloop.run(act())
    if not result.arrivals:
        raise NearcastError(f"no notification arrived under the plan of {method}")
    return result, own_delay_ms


async def _watch_lateness(lateness_ms: list[float]) -> None:
    """Note how late this process wakes up: on a busy machine that is longer than a network."""
    while True:
        due_s = time.monotonic() + _WATCH_EVERY_S
        await asyncio.sleep(_WATCH_EVERY_S)
        lateness_ms.append(1e3 * (time.monotonic() - due_s))


def _count(teller: DemoTeller, total: int, done: int) -> None:
    teller.count(done, total)

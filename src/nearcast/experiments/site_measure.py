"""All clients of a running site at work: they connect, subscribe and publish; all is timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from nearcast.site.live_site import LiveSite
from nearcast.site.swarm import Arrival, Swarm, SwarmResult, memberships

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "STAGES",
    "LiveSettings",
    "connected_swarm",
    "measure_publishing",
    "measure_site_clients",
    "to_table",
]

OnCount = Callable[[int, int], None]

STAGES = ("publish_leg_ms", "processing_ms", "between_ms", "notify_leg_ms", "total_ms")
_WATCH_EVERY_S = 0.02
_WARM_FACTOR = 4.0
"""How much faster the publications go that only have to make everybody known."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How a plan is put to the test."""

    delay_factor: float = 100.0
    rounds: int = 1
    """Publications of each publisher and topic."""
    rate_hz: float = 30.0
    """Publications of all together."""
    payload_bytes: int = 120
    seed: int = 1
    handshakes_s: float = 3.0
    """Time for sessions with servers other than the home, to which clients publish straight."""


def measure_site_clients(
    live: LiveSite,
    settings: LiveSettings,
    begin: Callable[[str], None] = lambda step: None,
    count: OnCount = lambda done, total: None,
    *,
    is_warm: bool = False,
    then: Callable[[Swarm], Awaitable[None]] | None = None,
) -> SwarmResult:
    """Have all clients of a site take part; return what arrived.

    Parameters
    ----------
    begin
        Called at the start of each step.
    count
        Called with how much of a step is done, and of how much.
    is_warm
        Whether each publisher publishes once before, so that it knows where to.
    then
        What the clients do afterwards, while they are still connected.
    """
    import uvloop

    async def act() -> SwarmResult:
        async with connected_swarm(live, begin, count) as swarm:
            found = await measure_publishing(live, swarm, settings, begin, count, is_warm=is_warm)
            if then is not None:
                await then(swarm)
            return found

    return uvloop.run(act())


@asynccontextmanager
async def connected_swarm(
    live: LiveSite,
    begin: Callable[[str], None] = lambda step: None,
    count: OnCount = lambda done, total: None,
) -> AsyncIterator[Swarm]:
    """Give all clients of a site, which have a session and what they subscribe to.

    Parameters
    ----------
    begin
        Called at the start of each step.
    count
        Called with how much of a step is done, and of how much.
    """
    begin("connecting clients")
    credentials = live.enrol_clients()
    members = memberships(live.scenario)
    subscriptions = sum(one.subscribes for one in members)
    async with Swarm(credentials) as swarm:
        await swarm.connect(partial(_count, count, len(credentials)))
        begin("subscribing")
        await swarm.subscribe(members, partial(_count, count, subscriptions))
        # a subscription is known to all brokers one trip through the mesh later
        await asyncio.sleep(0.5 + 2 * _longest_s(live))
        yield swarm


async def measure_publishing(
    live: LiveSite,
    swarm: Swarm,
    settings: LiveSettings,
    begin: Callable[[str], None] = lambda step: None,
    count: OnCount = lambda done, total: None,
    *,
    is_warm: bool = False,
) -> SwarmResult:
    """Have clients that are connected publish; see `measure_site_clients`."""
    members = memberships(live.scenario)
    body = b"x" * settings.payload_bytes
    publications = settings.rounds * sum(one.publishes for one in members)
    publish = partial(
        swarm.publish,
        members,
        rate_hz=settings.rate_hz,
        payload=lambda one, at: body,
        settle_s=10.0 + 4 * _longest_s(live),
        seed=settings.seed,
        on_count=partial(_count, count, publications),
    )
    if is_warm:
        begin("publishing once before")
        await publish(rounds=1, rate_hz=_WARM_FACTOR * settings.rate_hz)
        await asyncio.sleep(settings.handshakes_s)
    begin("publishing")
    lateness_ms: list[float] = []
    watching = asyncio.ensure_future(_watch_lateness(lateness_ms))
    result = await publish(rounds=settings.rounds)
    watching.cancel()
    own_delay_ms = sum(lateness_ms) / max(1, len(lateness_ms))
    return replace(result, own_delay_ms=own_delay_ms)


def _longest_s(live: LiveSite) -> float:
    return live.scenario.settings.cloud_ms * 2 * live.site.delay_factor / 1e3


def to_table(runs: Iterable[tuple[str, Sequence[Arrival]]]) -> pa.Table:
    """Return all notifications, one row each, with the method that planned for them."""
    import pyarrow as pa

    rows = [(method, arrival) for method, arrivals in runs for arrival in arrivals]
    columns: dict[str, list[object]] = {
        "method": [method for method, _ in rows],
        "topic": [arrival.notification.topic for _, arrival in rows],
        "publisher": [arrival.notification.publisher for _, arrival in rows],
        "sequence": [arrival.notification.sequence for _, arrival in rows],
        "client": [arrival.client for _, arrival in rows],
    }
    for stage in STAGES:
        columns[stage] = [getattr(arrival.notification, stage) for _, arrival in rows]
    return pa.table(columns)


async def _watch_lateness(lateness_ms: list[float]) -> None:
    """Note how late this process wakes up: on a busy machine that is longer than a network."""
    while True:
        due_s = time.monotonic() + _WATCH_EVERY_S
        await asyncio.sleep(_WATCH_EVERY_S)
        lateness_ms.append(1e3 * (time.monotonic() - due_s))


def _count(count: Callable[[int, int], None], total: int, done: int) -> None:
    count(done, total)

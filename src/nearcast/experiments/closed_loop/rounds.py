"""Clients of a running site move; the site plans itself anew, round by round, while messages flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from nearcast.domain.scenario import Scenario
from nearcast.experiments.closed_loop.moving import move_clients
from nearcast.experiments.closed_loop.steady_load import LoadCounts, SteadyLoad, run_steady_load
from nearcast.runtime.event_log_tables import read_notifications
from nearcast.site.live_site import LiveSite
from nearcast.site.plan_access import adopt_plan, wait_for_servers
from nearcast.site.replan_rounds import ReplanRound
from nearcast.site.replanner import Replanner, ReplanSettings, SiteOfReplanner
from nearcast.site.swarm import Swarm, memberships

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FULL_KNOWLEDGE",
    "LoopRun",
    "LoopSettings",
    "Phase",
    "adopt",
    "processed_twice",
    "watch_rounds",
]

FULL_KNOWLEDGE = "full knowledge"
_AFTER_A_SWITCH_S = 1.0
_HAVE_IT_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop is put to the test."""

    rate_hz: float = 60.0
    """Publications of all clients together."""
    share: float = 0.8
    """Of the clients, that move."""
    rounds: int = 2
    """After the move."""
    is_watched_before: bool = True
    """Whether a round comes before the move: the plan should stay."""
    window_s: float = 12.0
    """Of the log, that a round learns from."""
    before_s: float | None = None
    """How long clients publish before anything happens; None: as long as between rounds."""
    moved_s: float = 6.0
    """How long ago the clients have moved when the next round begins."""
    measure_s: float = 10.0
    """The end of each phase, whose messages are measured."""
    time_limit_s: float = 5.0
    """For a search, and once more for its bound."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Phase:
    """A span under one plan; times are Unix time."""

    name: str
    since_s: float
    until_s: float
    """Of the messages that were measured."""
    measured_ms: float = float("nan")
    """Mean from publisher to subscriber, each message the mean over its subscribers."""
    done: ReplanRound | None = None
    """The round that the phase began with."""


@dataclass(slots=True)
class LoopRun:
    """What was seen."""

    phases: list[Phase] = field(default_factory=list)
    moved_clients: int = 0
    moved_s: float = 0.0
    """When."""
    counts: LoadCounts = field(default_factory=lambda: LoadCounts(0, 0, 0, 0, 0))
    by_second: Sequence[tuple[float, float]] = ()
    """The mean delay of the messages sent in each second: when it began, and ms."""

    @property
    def rounds(self) -> list[ReplanRound]:
        """All rounds, in order."""
        return [phase.done for phase in self.phases if phase.done is not None]


async def watch_rounds(
    live: LiveSite,
    swarm: Swarm,
    spark: SparkSession,
    after: Scenario,
    settings: LoopSettings,
    begin: Callable[[str], None] = lambda step: None,
    full_knowledge: Path | None = None,
) -> LoopRun:
    """Let clients publish, move and publish on, and the site plan itself anew.

    Parameters
    ----------
    swarm
        All clients of the site, which have subscribed.
    after
        The scenario that they move to.
    full_knowledge
        A folder with ``scenario`` and ``plan``, which the site goes by in the last phase.
    """
    load = SteadyLoad(swarm, memberships(live.scenario), settings.rate_hz, settings.seed)
    # the first message of a stream after a switch waits for its hand-over
    every_s = _AFTER_A_SWITCH_S + load.turn_s + settings.measure_s
    replanner = Replanner(
        SiteOfReplanner.of_folder(live.site),
        ReplanSettings(
            every_s=every_s,
            window_s=settings.window_s,
            time_limit_s=settings.time_limit_s,
            seed=settings.seed,
        ),
        lambda: nullcontext(spark),
    )
    rounds = replanner.rounds(Event())
    run, phases = LoopRun(), list[Phase]()

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        now_s = time.time()
        phases.append(Phase(name, now_s - min(seconds, settings.measure_s), now_s))

    async def replan(name: str) -> None:
        begin(name)
        done = await asyncio.to_thread(next, rounds)
        until_s = done.began + done.work_s + every_s
        phases.append(Phase(name, until_s - settings.measure_s, until_s, done=done))

    try:
        async with run_steady_load(load):
            begin("publishing")
            await wait("before", every_s if settings.before_s is None else settings.before_s)
            if settings.is_watched_before:
                await replan("round 0")
            begin("clients move")
            run.moved_s = time.time()
            run.moved_clients = move_clients(live, swarm, after)
            await wait("moved", settings.moved_s)
            for number in range(1, settings.rounds + 1):
                await replan(f"round {number}")
            if full_knowledge is not None:
                begin(FULL_KNOWLEDGE)
                made = full_knowledge
                await asyncio.to_thread(adopt, live, made / "plan", made / "scenario")
                await wait(FULL_KNOWLEDGE, every_s)
    finally:
        await asyncio.to_thread(rounds.close)
    run.counts = await load.settle()
    run.by_second = load.by_second()
    run.phases = [
        replace(one, measured_ms=load.mean_ms(one.since_s, one.until_s)) for one in phases
    ]
    return run


def processed_twice(log: Path) -> int:
    """Return how many messages a site's event log has from more than one processing.

    A broker stamps what it makes of a message; what is only told again has the stamp 0.
    """
    import pyarrow.compute as pc

    table = read_notifications(log)
    own = table.filter(pc.greater(table["processed_us"], 0))
    keys = ["topic", "publisher", "epoch", "durable", "sequence"]
    stamps = own.group_by(keys).aggregate([("processed_us", "count_distinct")])
    return int(pc.sum(pc.greater(stamps["processed_us_count_distinct"], 1)).as_py() or 0)


def adopt(live: LiveSite, plan: Path, scenario: Path | None = None) -> dict[str, Any]:
    """Have a site go by another plan; return how streams paused, as the manager tells it."""
    manager = SiteOfReplanner.of_folder(live.site).manager
    version = adopt_plan(manager, plan, scenario=scenario)
    return wait_for_servers(manager, version, _HAVE_IT_WITHIN_S)

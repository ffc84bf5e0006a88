"""Servers that are killed at each step of a hand-over, one step after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from nearcast.errors import NearcastError
from nearcast.experiments.flows.flow_site import FlowSite
from nearcast.links.steady_clock import steady_now
from nearcast.site.processes import SiteProcesses

__all__ = ["GIVER_STEPS", "TAKER_STEPS", "StepKills", "kill_at_steps"]

GIVER_STEPS = (
    "before receive MovePart",
    "after receive MovePart",  # the part is given, which may not be stored
    "before send HandOver",  # it is stored that the part is under way
    "after send HandOver",
    "before receive Took",
    "after receive Took",  # the part is let go of, which may not be stored
    "before send Settled",  # that is stored
    "after send Settled",
)
TAKER_STEPS = (
    "before receive HandOver",
    "after receive HandOver",  # the part is taken, which may not be stored
    "before send Took",  # it is stored
    "after send Took",
    "before receive Settled",
    "after receive Settled",
)
_STEP_S, _SETTLE_S = 20.0, 60.0
_TRIES = 3
"""Where the half is, is known from reports: on a busy machine one may be too old, and the half not
where it was to be given."""
_PAUSE_S = 0.05


@dataclass(slots=True)
class StepKills:
    """What came of it."""

    killed: list[str] = field(default_factory=list)
    """Steps at which a server died."""
    missed: list[str] = field(default_factory=list)
    """Steps that were not reached."""
    undivided: list[str] = field(default_factory=list)
    """Steps after which some index had no holder, or more than one, for a minute."""


async def kill_at_steps(site: FlowSite, half: int, steps: tuple[str, ...], done: StepKills) -> None:
    """Move the lower half to and fro; at each hand-over one server dies at the next step."""
    ends = ("cloud", "e2")
    await asyncio.sleep(2.0)
    for step in steps:
        for _ in range(_TRIES):
            has_died = await _kill_at(site, half, step, ends)
            await asyncio.sleep(1.0)  # what servers last said of it must be news
            if not await _until(site, site.is_divided, _SETTLE_S):
                done.undivided.append(step)
            if has_died:
                break
        (done.killed if has_died else done.missed).append(step)
    await asyncio.sleep(2.0)


async def _kill_at(site: FlowSite, half: int, step: str, ends: tuple[str, str]) -> bool:
    """Move the lower half while a server is to die at a step; tell whether one did."""
    giver = ends[0] if await asyncio.to_thread(_has_half, site, ends[0], half) else ends[1]
    taker = ends[1 - ends.index(giver)]
    victim = giver if step in GIVER_STEPS else taker
    processes = site.live.processes
    site.arm(victim, step)
    has_restarted = partial(_is_above, processes, processes.restarted)
    await asyncio.to_thread(site.move, giver, taker, 0, half)
    has_died = await _until(site, has_restarted, _STEP_S)
    site.arm(victim, None)
    return has_died


def _is_above(processes: SiteProcesses, restarted: int) -> bool:
    return processes.restarted > restarted


def _has_half(site: FlowSite, server: str, half: int) -> bool:
    return any(low == 0 and high >= half for low, high in site.held().get(server, []))


async def _until(site: FlowSite, condition: Callable[[], bool], patience_s: float) -> bool:
    """Wait for a condition; servers that died are started again meanwhile."""
    until_s = steady_now() + patience_s
    while steady_now() < until_s:
        gave_up = await asyncio.to_thread(site.live.processes.watch)
        if gave_up:
            raise NearcastError(f"server {gave_up[0]!r} did not start again")
        if await asyncio.to_thread(condition):
            return True
        await asyncio.sleep(_PAUSE_S)
    return False

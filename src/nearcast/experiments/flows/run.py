"""The cases: hand-overs of a stateful component under load, the same with kills, and scale-out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nearcast.experiments.flows.flow_site import FlowLayout, FlowSite, open_flow_site
from nearcast.experiments.flows.load import Load, check, drive
from nearcast.experiments.flows.pauses import Move, longest_ms, quiet_spans, spans_of
from nearcast.experiments.flows.step_kills import (
    GIVER_STEPS,
    TAKER_STEPS,
    StepKills,
    kill_at_steps,
)
from nearcast.experiments.flows.trial_processors import GRIND, TALLY, rounds_for
from nearcast.experiments.percentiles import percentile
from nearcast.flow.flow import Component, ContentMapping
from nearcast.links.steady_clock import steady_now
from nearcast.routing.index_mapping import content_index
from nearcast.routing.keys import INDEX_END

__all__ = ["CASES", "FlowPoint", "FlowTrial", "run"]

CASES = ("hand-over", "kill", "steps", "scale-out")
_TALLY = Component(TALLY, ("trial/in",), "trial/out", {}, ContentMapping("key"))
_HALF = INDEX_END // 2
_BETWEEN_S = 1.5
_QUIET_S = 8.0
"""Without a hand-over, at the beginning: what the machine does to messages anyway."""
_KEYS = 64


@dataclass(frozen=True, slots=True)
class FlowTrial:
    """How flows are put to the test."""

    rate_hz: float = 2_000.0
    hand_overs: int = 20
    kills: int = 16
    kill_rate_hz: float = 200.0
    steps: tuple[str, ...] = GIVER_STEPS + TAKER_STEPS
    """Of a hand-over, at which giver or taker are killed."""
    grind_ms: float = 15.0
    """What a message of the component that is hard work takes."""
    grind_s: float = 10.0
    """How long its throughput is measured, before and after."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """What a case has shown."""

    case: str
    messages: int
    acknowledged: int
    lost: int
    untold: int
    """Processed, but what came of it was not heard."""
    doubled: int
    out_of_order: int
    """Processed before an earlier one of their publisher and key."""
    told_late: int = 0
    """Heard after a later one of them; after a kill that may be."""
    hand_overs: int = 0
    kills: int = 0
    steps_missed: int = 0
    """Steps of a hand-over that were not reached, so that nobody was killed there."""
    undivided: int = 0
    """Kills after which some index had no holder, or more than one, for a minute."""
    pause_p50_ms: float | None = None
    """Of hand-overs: the longest that a message of the moved part took which it may have held up;
    see `pauses`."""
    pause_p99_ms: float | None = None
    usual_pause_p99_ms: float | None = None
    """The same of spans of that length without a hand-over."""
    usual_p99_ms: float | None = None
    """Of single messages of the part, without a hand-over."""
    before_per_s: float | None = None
    after_per_s: float | None = None
    ratio: float | None = None
    """Throughput after scale-out to before."""


def run(
    cases: tuple[str, ...], trial: FlowTrial, begin: Callable[[str], None] = lambda step: None
) -> Iterator[FlowPoint]:
    """Run cases, each on a site of its own."""
    makers = {
        "hand-over": _hand_overs,
        "kill": _kills,
        "steps": _step_kills,
        "scale-out": _scale_out,
    }
    for case in cases:
        begin(case)
        with (
            tempfile.TemporaryDirectory(prefix="nearcast-flows-") as folder,
            open_flow_site(Path(folder), FlowLayout(can_crash=case == "steps")) as site,
        ):
            site.live.enrol_clients()
            yield makers[case](site, trial)


def _hand_overs(site: FlowSite, trial: FlowTrial) -> FlowPoint:
    """Move the lower half of all indexes to and fro while messages come."""
    site.run_flow(_TALLY)
    moves: list[Move] = []

    async def move(_load: Load) -> None:
        await asyncio.sleep(_QUIET_S)
        ends = ("cloud", "e2")
        for number in range(trial.hand_overs):
            giver, taker = ends[number % 2], ends[1 - number % 2]
            moves.append(Move(steady_now(), taker))
            await asyncio.to_thread(site.move, giver, taker, 0, _HALF)
            await asyncio.sleep(_BETWEEN_S)

    load = asyncio.run(drive(site, trial.rate_hz, _KEYS, move))
    found = check(load)
    moving = frozenset(key for key in set(load.keys.values()) if _is_in_half(key))
    spans = spans_of(load, moves, moving)
    began_s, quiet_until_s = min(load.sent_s.values()), spans[0].since_s
    pauses_ms = longest_ms(load, spans, moving)
    usual_ms = longest_ms(load, quiet_spans(began_s, quiet_until_s, spans), moving)
    quiet_ms = [1e3 * one for one in load.delays_s(0.0, quiet_until_s, moving)]
    return FlowPoint(
        "hand-over",
        len(load.sent_s),
        load.acknowledged,
        found.lost,
        found.untold,
        found.doubled,
        found.out_of_order,
        found.told_late,
        hand_overs=len(moves),
        pause_p50_ms=percentile(pauses_ms, 0.5),
        pause_p99_ms=percentile(pauses_ms, 0.99),
        usual_pause_p99_ms=percentile(usual_ms, 0.99),
        usual_p99_ms=percentile(quiet_ms, 0.99),
    )


def _is_in_half(key: str) -> bool:
    index = content_index(key)
    return index is not None and index < _HALF


def _kills(site: FlowSite, trial: FlowTrial) -> FlowPoint:
    """Kill the giver or the taker a short, random time after each hand-over has begun."""
    site.run_flow(_TALLY)
    rng, kills = Random(trial.seed), 0

    async def move_and_kill(_load: Load) -> None:
        nonlocal kills
        ends = ("cloud", "e2")
        began_s = steady_now()
        for number in range(trial.kills):
            await asyncio.sleep(max(0.0, began_s + 3.0 + 5.0 * number - steady_now()))
            giver = "cloud" if (0, _HALF) in _around(site, "cloud") else "e2"
            taker = ends[1 - ends.index(giver)]
            await asyncio.to_thread(site.move, giver, taker, 0, _HALF)
            await asyncio.sleep(rng.random() * 0.03)
            await asyncio.to_thread(site.restart, giver if number % 2 else taker)
            kills += 1
        await asyncio.sleep(5.0)

    load = asyncio.run(drive(site, trial.kill_rate_hz, _KEYS, move_and_kill))
    found = check(load)
    return FlowPoint(
        "kill",
        len(load.sent_s),
        load.acknowledged,
        found.lost,
        found.untold,
        found.doubled,
        found.out_of_order,
        found.told_late,
        hand_overs=trial.kills,
        kills=kills,
    )


def _step_kills(site: FlowSite, trial: FlowTrial) -> FlowPoint:
    """Kill the giver, then the taker, at each step of a hand-over."""
    site.run_flow(_TALLY)
    done = StepKills()

    async def kill(_load: Load) -> None:
        await kill_at_steps(site, _HALF, trial.steps, done)

    load = asyncio.run(drive(site, trial.kill_rate_hz, _KEYS, kill))
    found = check(load)
    return FlowPoint(
        "steps",
        len(load.sent_s),
        load.acknowledged,
        found.lost,
        found.untold,
        found.doubled,
        found.out_of_order,
        found.told_late,
        hand_overs=len(trial.steps),
        kills=len(done.killed),
        steps_missed=len(done.missed),
        undivided=len(done.undivided),
    )


def _around(site: FlowSite, server: str) -> list[tuple[int, int]]:
    """Return (0, half) if a server holds the lower half, whatever it holds besides."""
    parts = site.held().get(server, [])
    return [(0, _HALF)] if any(low == 0 and high >= _HALF for low, high in parts) else []


def _scale_out(site: FlowSite, trial: FlowTrial) -> FlowPoint:
    """Give a component more to do than one core can: servers divide it by themselves."""
    rounds = rounds_for(trial.grind_ms)
    component = Component(GRIND, ("trial/in",), "trial/out", {"rounds": rounds})
    site.run_flow(component)
    spans: list[tuple[float, float, int]] = []

    async def watch(load: Load) -> None:
        rates: list[tuple[float, int]] = []
        divided_s = 0.0
        until_s = steady_now() + 60.0
        while steady_now() < until_s:
            rates.append((steady_now(), len(load.heard)))
            if not divided_s and len(await asyncio.to_thread(site.held)) > 1:
                divided_s = steady_now()
            if divided_s and steady_now() > divided_s + 4.0 + trial.grind_s:
                break
            await asyncio.sleep(0.5)
        before = [one for one in rates if not divided_s or one[0] < divided_s - 2.0]
        after = [one for one in rates if divided_s and one[0] > divided_s + 4.0]
        for some in (before[2:], after):
            if len(some) > 1:
                (since_s, first), (until, last) = some[0], some[-1]
                spans.append((since_s, until, last - first))

    # a little more than two cores can do: what waits must not fill the outboxes
    load = asyncio.run(drive(site, 2.1e3 / trial.grind_ms, _KEYS, watch))
    rates = [count / (until - since) for since, until, count in spans]
    found = check(load)
    return FlowPoint(
        "scale-out",
        len(load.sent_s),
        load.acknowledged,
        found.lost,
        found.untold,
        found.doubled,
        0,  # shuffled messages have no order
        before_per_s=rates[0] if rates else None,
        after_per_s=rates[1] if len(rates) > 1 else None,
        ratio=rates[1] / rates[0] if len(rates) > 1 and rates[0] else None,
    )

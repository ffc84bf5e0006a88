"""The cases: hand-overs of a stateful component under load, the same with kills, and scale-out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nearcast.experiments.flows.core_bound import core_ratio
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
from nearcast.runtime.config import FlowsConfig

__all__ = ["CASES", "FlowPoint", "FlowTrial", "run", "steps_of"]

CASES = ("hand-over", "kill", "steps", "scale-out")
_TALLY = Component(TALLY, ("trial/in",), "trial/out", {}, ContentMapping("key"))
_HALF = INDEX_END // 2
_BETWEEN_S = 1.5
_QUIET_S = 8.0
"""Without a hand-over, at the beginning: what the machine does to messages anyway."""
_KEYS = 64
_STARTS_S, _SETTLES_S = 2.0, 4.0
"""That do not count after the first result, and after the first one of a second server."""


@dataclass(frozen=True, slots=True)
class FlowTrial:
    """How flows are put to the test."""

    rate_hz: float = 2_000.0
    hand_overs: int = 20
    kills: int = 16
    kill_rate_hz: float = 200.0
    steps: tuple[str, ...] = GIVER_STEPS + TAKER_STEPS
    """Of a hand-over, at which giver or taker are killed."""
    grinds_ms: tuple[float, ...] = (15.0, 30.0)
    """What a message of the component that is hard work takes, in one run after the other."""
    lasting_s: float = 8.0
    """How long a server is overloaded before it divides hard work: so long is measured before."""
    grind_s: float = 10.0
    """How long its throughput is measured after."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """What a case has shown."""

    case: str
    servers: str
    """That made what came out."""
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
    grind_ms: float | None = None
    """What a message takes that is hard work."""
    before_per_s: float | None = None
    after_per_s: float | None = None
    ratio: float | None = None
    """Throughput after scale-out to before."""
    bound_ratio: float | None = None
    """The same of two processes that only do the work to one, shortly before and after: what the
    machine's cores allow. Messages and the load itself need some of them, too."""


def run(
    cases: tuple[str, ...], trial: FlowTrial, begin: Callable[[str], None] = lambda step: None
) -> Iterator[FlowPoint]:
    """Run cases, each on a site of its own."""
    makers = {"hand-over": _hand_overs, "kill": _kills, "steps": _step_kills}
    for case, grind_ms in steps_of(cases, trial):
        begin(case)
        flows = FlowsConfig() if grind_ms is None else FlowsConfig(lasting_s=trial.lasting_s)
        layout = FlowLayout(flows=flows, can_crash=case == "steps")
        with (
            tempfile.TemporaryDirectory(prefix="nearcast-flows-") as folder,
            open_flow_site(Path(folder), layout) as site,
        ):
            site.live.enrol_clients()
            if grind_ms is None:
                yield makers[case](site, trial)
            else:
                yield _scale_out(site, trial, grind_ms)


def steps_of(cases: tuple[str, ...], trial: FlowTrial) -> list[tuple[str, float | None]]:
    """Return the runs of these cases, with what a message takes of those that are hard work."""
    return [
        (case, grind_ms)
        for case in cases
        for grind_ms in (trial.grinds_ms if case == "scale-out" else (None,))
    ]


def _servers(load: Load) -> str:
    """Return the servers that made something, in the order in which they began."""
    return ", ".join(dict.fromkeys(one.server for one in load.heard))


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
        _servers(load),
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
        _servers(load),
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
        _servers(load),
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


def _scale_out(site: FlowSite, trial: FlowTrial, grind_ms: float) -> FlowPoint:
    """Give a component more to do than one core can: servers divide it by themselves."""
    rounds = rounds_for(grind_ms)
    bound_before = core_ratio(rounds)
    site.run_flow(Component(GRIND, ("trial/in",), "trial/out", {"rounds": rounds}))
    divided_s: list[float] = []

    async def watch(load: Load) -> None:
        until_s = steady_now() + 60.0
        while steady_now() < until_s:
            await asyncio.sleep(0.5)
            if not divided_s:
                divided_s.extend(_first_of_a_second(load))
            elif steady_now() > divided_s[0] + _SETTLES_S + trial.grind_s:
                break

    # a little more than two cores can do: what waits must not fill the outboxes
    load = asyncio.run(drive(site, 2.1e3 / grind_ms, _KEYS, watch))
    bound_ratio = (bound_before + core_ratio(rounds)) / 2
    before = after = None
    if divided_s:
        # what the second server made first was held up while the part was handed over
        before = _rate(load, load.heard[0].at_s + _STARTS_S, divided_s[0] - 1.0)
        settled_s = divided_s[0] + _SETTLES_S
        after = _rate(load, settled_s, settled_s + trial.grind_s)
    found = check(load)
    return FlowPoint(
        "scale-out",
        _servers(load),
        len(load.sent_s),
        load.acknowledged,
        found.lost,
        found.untold,
        found.doubled,
        0,  # shuffled messages have no order
        grind_ms=grind_ms,
        before_per_s=before,
        after_per_s=after,
        ratio=after / before if before and after else None,
        bound_ratio=bound_ratio,
    )


def _first_of_a_second(load: Load) -> list[float]:
    """Return when the first message was heard that a second server made; nothing: none was."""
    return [one.at_s for one in load.heard if one.server != load.heard[0].server][:1]


def _rate(load: Load, since_s: float, until_s: float) -> float | None:
    """Return how many messages a second were heard in a time; None when it is too short."""
    if until_s - since_s < 1.0:
        return None
    return sum(since_s <= one.at_s < until_s for one in load.heard) / (until_s - since_s)

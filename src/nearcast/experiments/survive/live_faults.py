"""Real processes under load: kills, pauses, cuts and plan switches, then every message checked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

from nearcast.broker.notices import decode_entry
from nearcast.errors import NearcastError
from nearcast.experiments.survive.live_load import LiveLoad, run_load
from nearcast.experiments.survive.live_trial import EDGES, SERVERS, LiveTrial, open_trial
from nearcast.links.http_client import ask
from nearcast.links.real_disk import RealDisk
from nearcast.runtime.crash_points import arm
from nearcast.runtime.event_log_tables import read_publications
from nearcast.site.layout import MANAGER, SiteFolder, SiteSettings
from nearcast.spool.recovery import recover
from nearcast.wire.publication import Origin, Publication

__all__ = ["SWITCH_STEPS", "LiveCounts", "LiveReport", "run_live"]

_STEP_S = 0.5
_CALM_SWITCHES = 5
_REPORTED_S = 2.0
"""Until the manager has heard how long streams have waited."""
SWITCH_STEPS = tuple(
    f"{when} {way} {message}"
    for message, ways in (
        ("NewOrders", ("receive",)),
        ("Claim", ("send", "receive")),
        ("Yielded", ("send", "receive")),
    )
    for way in ways
    for when in ("before", "after")
)
"""Of a plan switch between servers: at each of them in turn one of these dies."""
_REACHED_S = 1.0
"""A server that has not got to its step by then is killed wherever it is."""
_IN_DOUBT_S = 6.0
"""Until then a server that was given up has heard of it: faults last for less than 4 s, and it is
asked every `takeover_s`."""
_CLOCKS_S = 0.1
"""The log has milliseconds, and a receipt is noticed a little later."""
_LOGGED_LINES, _LOGGED_S = 5, 10.0
"""So many takeovers a server's log tells in this time: streams of further ones are not known."""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """How much of everything."""

    kills: int = 60
    pauses: int = 20
    cuts: int = 15
    switches: int = 30
    """In each but every third a server dies, at one of `SWITCH_STEPS`."""
    acknowledged: int = 50_000
    takeover_s: float = SiteSettings().takeover_s
    """On a busy machine servers are given up: only what was in doubt then may be processed twice.
    With more than any fault lasts, nothing may."""


class _Takeover(NamedTuple):
    """Streams that a server went on with, though others did not answer."""

    at_s: float
    server: str
    given_up: tuple[str, ...]
    """Those that did not answer."""
    publishers: dict[str, list[str]] | None
    """By topic; None: any, within `_LOGGED_S`."""


@dataclass(slots=True)
class LiveReport:
    """What happened and what was found."""

    faults: Counter[str] = field(default_factory=Counter)
    armed: int = 0
    """Plan switches in which a server was to die at a step."""
    steps: Counter[str] = field(default_factory=Counter)
    """Steps of plan switches at which one died."""
    attempted: int = 0
    acknowledged: int = 0
    spooled: int = 0
    logged: int = 0
    """Messages in the event log: a kill loses what had not been written."""
    heard: int = 0
    takeovers: int = 0
    in_doubt: int = 0
    """Messages processed twice that were not acknowledged when their server was given up."""
    switch_pause_p99_s: float = 0.0
    """Of streams, in the worst of some plan switches without faults."""
    violations: list[str] = field(default_factory=list)


async def run_live(
    folder: Path, counts: LiveCounts, seed: int, begin: Callable[[str], object] = str
) -> LiveReport:
    """Run a site in a folder, break it, and check each acknowledged message."""
    report, rng = LiveReport(), Random(seed)
    made = open_trial(folder, seed, takeover_s=counts.takeover_s, can_crash=True)
    async with made as trial:
        credentials = await asyncio.to_thread(trial.live.enrol_clients)
        async with run_load(credentials) as load:
            begin("calm switches")
            await _measure_switches(trial, rng, report)
            for fault in _schedule(counts, rng):
                begin(fault)
                await _inject(fault, trial, rng, report)
                await asyncio.sleep(_STEP_S * rng.random())
            begin("messages")
            while len(load.acknowledged) < counts.acknowledged:  # noqa: ASYNC110 - counts, not events
                await asyncio.sleep(0.1)
    _check(trial.live.site, load, report)
    return report


def _schedule(counts: LiveCounts, rng: Random) -> list[str]:
    """Return all faults in random order; kills that follow a switch are part of it."""
    crashing = min(counts.kills, counts.switches * 2 // 3)
    faults = ["switch and kill"] * crashing + ["switch"] * (counts.switches - crashing)
    faults += ["kill"] * (counts.kills - crashing) + ["pause"] * counts.pauses
    faults += ["cut"] * counts.cuts
    rng.shuffle(faults)
    return faults


async def _measure_switches(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    """Switch plans under load, and note how long streams waited."""
    site = trial.live.site
    for _ in range(_CALM_SWITCHES):
        await _adopt(trial, rng)
        await asyncio.sleep(_REPORTED_S)
        status = await asyncio.to_thread(ask, f"{site.manager_url}/status")
        pause_s = status["switch"]["pause_p99_s"] or 0.0
        report.switch_pause_p99_s = max(report.switch_pause_p99_s, pause_s)


async def _inject(fault: str, trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    if fault == "switch and kill":
        await _switch_and_kill(trial, rng, report)
    elif fault == "switch":
        await _switch(trial, rng, report)
    elif fault == "kill":
        await _kill(rng.choice((*SERVERS, *EDGES, MANAGER)), trial, rng, report)
    elif fault == "pause":
        await _pause(trial, rng, report)
    elif fault == "cut":
        await _cut(trial, rng, report)


async def _switch_and_kill(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    """Switch plans; a server dies at one step of that."""
    server, processes = rng.choice(SERVERS), trial.live.processes
    step = SWITCH_STEPS[report.armed % len(SWITCH_STEPS)]
    report.armed += 1
    data = trial.live.site.folder / "data" / server
    arm(data, step)
    await _switch(trial, rng, report)
    until_s = time.monotonic() + _REACHED_S
    while not processes.has_ended(server) and time.monotonic() < until_s:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    arm(data, None)
    report.steps[step] += processes.has_ended(server)
    await _kill(server, trial, rng, report)


async def _kill(server: str, trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    report.faults["kills"] += 1
    await asyncio.to_thread(trial.live.processes.kill, server)
    await asyncio.sleep(0.5 * rng.random())
    trial.live.processes.start(server)


async def _pause(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    pid = trial.live.processes.pid(rng.choice(SERVERS))
    report.faults["pauses"] += 1
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(0.2 + rng.random())
    os.kill(pid, signal.SIGCONT)


async def _cut(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    """Cut clients or servers off from a server: both ways, one way, or in and out."""
    report.faults["cuts"] += 1
    if rng.random() < 0.5:
        tcp = trial.tcp[rng.choice(SERVERS)]
        for _ in range(rng.choice((1, 3))):
            tcp.cut()
            await asyncio.sleep(0.2 + 0.8 * rng.random())
            tcp.heal()
            await asyncio.sleep(0.1)
        return
    udp = trial.udp[rng.choice(EDGES)]
    udp.cut_in, udp.cut_out = rng.choice(((True, True), (True, False), (False, True)))
    await asyncio.sleep(0.5 + rng.random())
    udp.cut_in = udp.cut_out = False


async def _switch(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    for _ in range(50):  # the manager may have been killed just now
        with suppress(NearcastError):
            await _adopt(trial, rng)
            report.faults["switches"] += 1
            return
        await asyncio.sleep(0.2)
    report.violations.append("the manager took no plan for 10 s")


async def _adopt(trial: LiveTrial, rng: Random) -> None:
    """Have the manager adopt one of the plans."""
    site, plan = trial.live.site, rng.choice([one for one in trial.plans if one != trial.plan])
    await asyncio.to_thread(ask, f"{site.manager_url}/plans", {"plan": str(plan)}, site.token)
    trial.plan = plan


def _read_takeovers(site: SiteFolder) -> list[_Takeover]:
    """Return what the servers' logs say of takeovers."""
    found = []
    for server in SERVERS:
        lines = (site.folder / "output" / f"{server}.log").read_text().splitlines()
        rows = [json.loads(line) for line in lines if '"streams_taken_over"' in line]
        told = [
            _Takeover(
                datetime.fromisoformat(row["time"]).timestamp(),
                server,
                tuple(row["given_up"]),
                row["publishers"],
            )
            for row in rows
            if "publishers" in row
        ]
        found += told
        found += [
            _Takeover(last.at_s, server, SERVERS, None)
            for first, last in zip(told, told[_LOGGED_LINES - 1 :], strict=False)
            if last.at_s - first.at_s <= _LOGGED_S
        ]
    return found


def _check(site: SiteFolder, load: LiveLoad, report: LiveReport) -> None:
    """Compare what was acknowledged with the spools, the event log and the subscribers."""
    spooled: dict[str, list[str]] = {}
    takeovers, messages = _read_takeovers(site), dict[str, Publication]()
    for server in SERVERS:
        recovered = recover(RealDisk(site.folder / "data" / server / "spool"))
        report.violations += [
            f"damage in the spool of {server}: {one}" for one in recovered.damages
        ]
        for topic, live in recovered.state.topics.items():
            for one in (decode_entry(topic, record) for record in live.records):
                if one.origin is Origin.DIRECT:
                    payload = one.payload.decode()
                    spooled.setdefault(payload, []).append(server)
                    messages[payload] = one
    rows = read_publications(site.event_log).select(["topic", "client", "epoch", "sequence"])
    report.attempted, report.acknowledged = load.attempted, len(load.acknowledged)
    report.spooled = len(load.acknowledged & spooled.keys())
    report.logged = len(set(zip(*(column.to_pylist() for column in rows.columns), strict=True)))
    report.heard = sum(map(len, load.heard.values()))
    _note(report, "lost", load.acknowledged - spooled.keys())
    twice = {one for one, places in spooled.items() if len(places) > 1}
    in_doubt = {one for one in twice if _is_explained(takeovers, messages[one], spooled[one], load)}
    report.takeovers = sum(one.publishers is not None for one in takeovers)
    report.in_doubt = len(in_doubt)
    _note(report, "processed twice", twice - in_doubt)
    for name, heard in load.heard.items():
        _note(report, f"{name} heard twice", {one for one, count in heard.items() if count > 1})
        _note(report, f"{name} never heard", load.acknowledged - heard.keys())
    if load.unknown or len(load.acknowledged) != load.attempted:
        open_count = load.attempted - len(load.acknowledged)
        report.violations.append(f"{open_count} publications were never acknowledged")


def _is_explained(
    takeovers: list[_Takeover], message: Publication, places: list[str], load: LiveLoad
) -> bool:
    """Tell whether takeovers left in doubt what became of a message, at just these servers.

    Each server processes it once at most.
    """
    if len(set(places)) < len(places):
        return False
    left = [one for one in takeovers if _leaves_in_doubt(one, message, load)]
    last = {one.server for one in left} & set(places)
    given_up = {one for taken in left if taken.server in places for one in taken.given_up}
    return bool(last) and len(set(places) - given_up) <= 1


def _leaves_in_doubt(takeover: _Takeover, message: Publication, load: LiveLoad) -> bool:
    """Tell whether a message may have been processed by a server that was given up, unheard."""
    acknowledged_s = load.acknowledged_s.get(message.payload.decode(), float("inf"))
    publishers, until_s = takeover.publishers, takeover.at_s + _IN_DOUBT_S
    if publishers is None:
        until_s += _LOGGED_S
    elif message.publisher not in publishers.get(message.topic, ()):
        return False
    return message.published_us / 1e6 <= until_s and acknowledged_s >= takeover.at_s - _CLOCKS_S


def _note(report: LiveReport, kind: str, messages: set[str]) -> None:
    if messages:
        some = ", ".join(sorted(messages)[:5])
        report.violations.append(f"{len(messages)} {kind}: {some}")

"""Real processes under load: kills, pauses, cuts and plan switches, then every message checked."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from nearcast.broker.notices import decode_entry
from nearcast.errors import NearcastError
from nearcast.experiments.survive.live_load import LiveLoad, run_load
from nearcast.experiments.survive.live_trial import EDGES, SERVERS, LiveTrial, open_trial
from nearcast.links.http_client import ask
from nearcast.links.real_disk import RealDisk
from nearcast.runtime.event_log_tables import read_publications
from nearcast.site.layout import MANAGER, SiteFolder
from nearcast.spool.recovery import recover
from nearcast.wire.publication import Origin

__all__ = ["LiveCounts", "LiveReport", "run_live"]

_STEP_S = 0.5


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """How much of everything."""

    kills: int = 60
    pauses: int = 20
    cuts: int = 15
    switches: int = 30
    """Each but every third is followed by the kill of a server."""
    acknowledged: int = 50_000
    takeover_s: float = 60.0
    """Longer than any fault: no server is given up, so nothing may be processed twice."""


@dataclass(slots=True)
class LiveReport:
    """What happened and what was found."""

    faults: Counter[str] = field(default_factory=Counter)
    attempted: int = 0
    acknowledged: int = 0
    spooled: int = 0
    logged: int = 0
    """Messages in the event log: a kill loses what had not been written."""
    heard: int = 0
    violations: list[str] = field(default_factory=list)


async def run_live(
    folder: Path, counts: LiveCounts, seed: int, begin: Callable[[str], object] = str
) -> LiveReport:
    """Run a site in a folder, break it, and check each acknowledged message."""
    report, rng = LiveReport(), Random(seed)
    async with open_trial(folder, seed, takeover_s=counts.takeover_s) as trial:
        credentials = await asyncio.to_thread(trial.live.enrol_clients)
        async with run_load(credentials) as load:
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


async def _inject(fault: str, trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    if fault.startswith("switch"):
        await _switch(trial, rng, report)
    if fault.endswith("kill"):
        await asyncio.sleep(0.3 * rng.random())
        await _kill(trial, rng, report)
    elif fault == "pause":
        await _pause(trial, rng, report)
    elif fault == "cut":
        await _cut(trial, rng, report)


async def _kill(trial: LiveTrial, rng: Random, report: LiveReport) -> None:
    server = rng.choice((*SERVERS, *EDGES, MANAGER))
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
    site = trial.live.site
    body = {"plan": str(rng.choice(trial.plans))}
    for _ in range(50):  # the manager may have been killed just now
        with suppress(NearcastError):
            await asyncio.to_thread(ask, f"{site.manager_url}/plans", body, site.token)
            report.faults["switches"] += 1
            return
        await asyncio.sleep(0.2)
    report.violations.append("the manager took no plan for 10 s")


def _check(site: SiteFolder, load: LiveLoad, report: LiveReport) -> None:
    """Compare what was acknowledged with the spools, the event log and the subscribers."""
    spooled: Counter[str] = Counter()
    for server in SERVERS:
        recovered = recover(RealDisk(site.folder / "data" / server / "spool"))
        report.violations += [
            f"damage in the spool of {server}: {one}" for one in recovered.damages
        ]
        for topic, live in recovered.state.topics.items():
            messages = [decode_entry(topic, one) for one in live.records]
            spooled.update(one.payload.decode() for one in messages if one.origin is Origin.DIRECT)
    rows = read_publications(site.event_log).select(["topic", "client", "epoch", "sequence"])
    report.attempted, report.acknowledged = load.attempted, len(load.acknowledged)
    report.spooled = len(load.acknowledged & spooled.keys())
    report.logged = len(set(zip(*(column.to_pylist() for column in rows.columns), strict=True)))
    report.heard = sum(map(len, load.heard.values()))
    _note(report, "lost", load.acknowledged - spooled.keys())
    _note(report, "processed twice", {one for one, count in spooled.items() if count > 1})
    for name, heard in load.heard.items():
        _note(report, f"{name} heard twice", {one for one, count in heard.items() if count > 1})
        _note(report, f"{name} never heard", load.acknowledged - heard.keys())
    if load.unknown or len(load.acknowledged) != load.attempted:
        open_count = load.attempted - len(load.acknowledged)
        report.violations.append(f"{open_count} publications were never acknowledged")


def _note(report: LiveReport, kind: str, messages: set[str]) -> None:
    if messages:
        some = ", ".join(sorted(messages)[:5])
        report.violations.append(f"{len(messages)} {kind}: {some}")

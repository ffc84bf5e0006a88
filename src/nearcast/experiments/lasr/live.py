"""Trials of the experiment with real processes, at a scale that one machine holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from nearcast.experiments.lasr.live_flow import live_site, run_live_trial
from nearcast.experiments.lasr.live_master import run_live_master_trial
from nearcast.experiments.lasr.testbed import JoseTestbed
from nearcast.experiments.lasr.trial import SystemKind, Trial
from nearcast.experiments.machine_noise import MachineNoise

__all__ = ["LIVE", "LIVE_SMALL", "live_trials"]

LIVE = JoseTestbed(brokers=1, devices=10, other_devices=10, size_bytes=2_000)
"""One broker a net instead of ten, one component instead of twenty, a tenth of a frame's size:
two cores hold that, also with four times the devices in the other net."""
LIVE_SMALL = replace(LIVE, devices=4, other_devices=4, frames=20)


@lru_cache(maxsize=16)
def live_trials(testbed: JoseTestbed, trials: int) -> dict[SystemKind, list[Trial]]:
    """Run both systems, one after the other; figures that ask for the same trials share them."""
    found: dict[SystemKind, list[Trial]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="nearcast-lasr-") as folder,
        live_site(Path(folder), testbed) as site,
    ):
        run = partial(run_live_trial, site, testbed)
        found[SystemKind.LASR] = [_beside_noise(run, seed) for seed in range(trials)]
    run = partial(run_live_master_trial, testbed)
    found[SystemKind.MASTER_SLAVE] = [_beside_noise(run, seed) for seed in range(trials)]
    return found


def _beside_noise(run: Callable[[int], Trial], seed: int) -> Trial:
    """Run a trial, and see meanwhile what the machine does to any message."""
    with MachineNoise() as noise:
        noise.begin()
        trial = run(seed)
        return replace(trial, machine_p99_ms=noise.end().p99_ms)

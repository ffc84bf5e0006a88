"""Power cuts at random moments: a prefix survives, and all that was acknowledged is in it."""

from __future__ import annotations

import pytest

from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.fake_disk import FakeDisk, PowerCutError
from spool.workload import Workload, alive

RESTARTS = 30


def _live(disk: FakeDisk, work: Workload, settings: SpoolSettings, durable: int) -> int:
    """Open, check, write until the power goes; return the last ticket known to be durable."""
    disk.cut_power_in(work.rng.randint(1, 40))
    try:
        log = SpoolLog.open(disk, settings)
        found = alive(log.recovered.state)
        # the same state may stand for several prefixes: the longest is the one to go on from
        survived = max(
            index for index, state in enumerate(work.after) if state == found and index >= durable
        )
        assert not log.recovered.damages
        work.rewind(survived)
        durable = survived
        while True:
            for _ in range(work.rng.randint(1, 4)):
                log.append(work.group())
            durable = max([durable, *log.commit()])
            if work.rng.random() < 0.1:
                log.seal()
            if work.rng.random() < 0.1:
                log.prepare_spare()
    except PowerCutError:
        return durable


@pytest.mark.parametrize("seed", range(25))
def test_what_was_acknowledged_survives_and_nothing_comes_twice(seed: int) -> None:
    disk, work = FakeDisk(seed), Workload(seed, spool=5 + 10 * (seed % 3))
    settings = SpoolSettings(segment_bytes=(1000, 3000, 20_000)[seed % 3], spares=seed % 2)
    durable = 0
    for _ in range(RESTARTS):
        durable = _live(disk, work, settings, durable)
        disk.restart()
    assert durable > RESTARTS
    found = SpoolLog.open(disk, settings).recovered
    assert alive(found.state) in work.after[durable:]
    assert not found.damages


@pytest.mark.parametrize("seed", range(25))
def test_a_process_that_is_killed_before_the_power_goes_leaves_whole_groups(seed: int) -> None:
    """What it had written and not synced is read by the next one, which has to sync it first."""
    disk, work = FakeDisk(seed), Workload(seed, spool=10)
    settings = SpoolSettings(segment_bytes=3000, spares=seed % 2)
    durable = 0
    for _ in range(2 * RESTARTS):
        durable = _live(disk, work, settings, durable)
        if work.rng.random() < 0.5:
            disk.restart()
        else:  # only the process is gone: what it wrote is in the kernel's memory
            disk.forget_faults()
    disk.restart()
    found = SpoolLog.open(disk, settings).recovered
    assert alive(found.state) in work.after[durable:]
    assert not found.damages

"""Real servers killed, paused, cut off and switched under load: every message is accounted for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nearcast.experiments.survive.live_faults import LiveCounts, run_live

SEED = 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_60_kills_20_pauses_15_cuts_and_30_switches_lose_nothing(tmp_path: Path) -> None:
    counts = LiveCounts()
    report = asyncio.run(run_live(tmp_path, counts, SEED))
    print(
        f"\nseed {SEED}: {dict(report.faults)}, {report.attempted} published, "
        f"{report.acknowledged} acknowledged, {report.spooled} of them in the spools, "
        f"{report.logged} in the event log, {report.heard} notifications; pause of streams in plan switches p99 {report.switch_pause_p99_s:.2f} s"
    )
    assert not report.violations
    assert report.switch_pause_p99_s > 0
    assert report.faults == {"kills": 60, "pauses": 20, "cuts": 15, "switches": 30}
    assert report.spooled == report.acknowledged >= 50_000
    assert report.logged > 0.9 * report.acknowledged

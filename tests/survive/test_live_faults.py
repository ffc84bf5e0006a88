"""Real servers killed, paused, cut off and switched under load: every message is accounted for."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from nearcast.broker.actions import TakenOver
from nearcast.experiments.survive.live_faults import (
    LiveCounts,
    _is_explained,
    _read_takeovers,
    run_live,
)
from nearcast.experiments.survive.live_load import LiveLoad
from nearcast.experiments.survive.live_trial import SERVERS
from nearcast.runtime.logs import JsonLines
from nearcast.server.effects import Effects
from nearcast.site.layout import SiteFolder
from nearcast.wire.publication import Publication

SEED = 3


def _log_takeovers(folder: Path, server: str, publishers: list[str]) -> None:
    """Write what a server logs that takes over one stream after the other, a second each."""
    effects, now = Effects(), iter(range(1_000, 2_000))
    path = folder / "output" / f"{server}.log"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as stream:
        handler = JsonLines(server, stream, clock=lambda: float(next(now)))
        for publisher in publishers:
            effects.note_taken_over([TakenOver("road", publisher, ("e2",))])
        for event, fields in effects.take().incidents:
            record = logging.LogRecord("", logging.INFO, "", 0, event, (), None)
            record.fields = fields
            handler.emit(record)
        handler.flush()


def test_takeovers_are_known_from_the_logs_and_from_what_those_leave_out(tmp_path: Path) -> None:
    def may_be_twice(
        publisher: str, published_s: float, acknowledged_s: float, *places: str
    ) -> bool:
        message = Publication("road", publisher, 1, 1, int(published_s * 1e6), 0, 0, 0, b"one")
        load = LiveLoad(acknowledged_s={"one": acknowledged_s})
        return _is_explained(takeovers, message, list(places or ("e1", "e2")), load)

    for server in SERVERS:
        _log_takeovers(tmp_path, server, ["p0"] if server == "e1" else [])
    takeovers = _read_takeovers(SiteFolder(tmp_path, tmp_path, 0.0, ()))
    at_s = takeovers[0].at_s
    assert may_be_twice("p0", at_s - 1, at_s + 1)
    assert not may_be_twice("p0", at_s - 2, at_s - 1)
    assert not may_be_twice("p0", at_s + 7, at_s + 8)
    assert not may_be_twice("p1", at_s - 1, at_s + 1)
    # only by who took over and by whom it gave up, and by each once
    assert not may_be_twice("p0", at_s - 1, at_s + 1, "e1", "e3")
    assert not may_be_twice("p0", at_s - 1, at_s + 1, "e2", "e3")
    assert not may_be_twice("p0", at_s - 1, at_s + 1, "e1", "e2", "e3")
    assert not may_be_twice("p0", at_s - 1, at_s + 1, "e1", "e2", "e2")
    _log_takeovers(tmp_path, "e3", [f"p{number}" for number in range(9)])
    takeovers = _read_takeovers(SiteFolder(tmp_path, tmp_path, 0.0, ()))
    last_s = takeovers[-1].at_s
    assert may_be_twice("p8", last_s + 5, last_s + 6, "e3", "e2")
    assert not may_be_twice("p8", last_s + 5, last_s + 6, "e1", "e2")
    assert not may_be_twice("p8", last_s - 2, last_s - 1, "e3", "e2")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_60_kills_20_pauses_15_cuts_and_30_switches_lose_nothing(tmp_path: Path) -> None:
    counts = LiveCounts()
    report = asyncio.run(run_live(tmp_path, counts, SEED))
    print(
        f"\nseed {SEED}: {dict(report.faults)}, {dict(report.steps)}, {report.attempted} published, "
        f"{report.acknowledged} acknowledged, {report.spooled} of them in the spools, "
        f"{report.logged} in the event log, {report.heard} notifications; pause of streams in plan switches p99 {report.switch_pause_p99_s:.2f} s"
    )
    assert not report.violations
    assert report.switch_pause_p99_s > 0
    assert report.faults == {"kills": 60, "pauses": 20, "cuts": 15, "switches": 30}
    assert len(+report.steps) >= 5, "servers do not get to the steps at which they are to die"
    assert report.spooled == report.acknowledged >= 50_000
    assert report.logged > 0.9 * report.acknowledged

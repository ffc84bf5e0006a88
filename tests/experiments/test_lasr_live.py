"""The LASR experiment with real processes, in small: counts and shares, no times but distances."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearcast.experiments.figures.figure import SMALL
from nearcast.experiments.figures.lasr2017 import FIGURES_LASR
from nearcast.experiments.lasr.live import LIVE_SMALL, live_trials
from nearcast.experiments.lasr.testbed import REPLICA, TARGET
from nearcast.experiments.lasr.trial import SystemKind

_FRAMES = LIVE_SMALL.frames
_DEVICES = LIVE_SMALL.devices + LIVE_SMALL.other_devices


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(SystemKind))
def test_every_frame_arrives_once_and_the_replica_gets_its_half_only(kind: SystemKind) -> None:
    (found,) = live_trials(LIVE_SMALL, 1)[kind]
    assert found.published == found.delivered == _DEVICES * _FRAMES
    assert len(found.arrivals) == LIVE_SMALL.devices * _FRAMES
    assert len({(one.index, one.frame) for one in found.arrivals}) == len(found.arrivals)
    assert {one.receiver for one in found.arrivals} == {TARGET, REPLICA}
    for one in found.arrivals:
        if one.receiver == REPLICA:
            assert one.index < found.split_at
            assert one.received_s > found.command_s
    # distances are least delays, however busy the machine is
    far_ms = 1e3 * LIVE_SMALL.cloud_rtt_s / 2
    for one in found.arrivals:
        if kind is SystemKind.MASTER_SLAVE:
            assert one.delay_ms >= 2 * far_ms
        elif one.receiver == TARGET:
            assert one.delay_ms >= far_ms
    late = [one for one in found.arrivals if one.index < found.split_at and one.frame >= 18]
    assert late
    assert {one.receiver for one in late} == {REPLICA}


@pytest.mark.slow
def test_a_figure_has_both_runs_beside_each_other() -> None:
    result = FIGURES_LASR[0].result(replace(SMALL, trials_live=1), {})
    assert set(result.pictures) == {"", "live"}
    assert {row["run"] for row in result.rows} == {"virtual time", "real processes"}
    half = len(result.verdicts) // 2
    virtual, live = result.verdicts[:half], result.verdicts[half:]
    assert half >= 3
    assert [f"With real processes: {one.finding}" for one in virtual] == [
        one.finding for one in live
    ]
    assert result.numbers["live_lasr_lost_x1"] == result.numbers["live_master_slave_lost_x1"] == 0
    assert result.numbers["live_master_slave_edge_min_ms"] >= 14.1
    assert result.numbers["live_lasr_machine_p99_ms"] > 0

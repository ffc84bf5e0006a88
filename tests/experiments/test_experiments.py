"""The benchmarks at their smallest: they run, and their numbers are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.experiments import gap, placement_gap, plan_scale, replanning


def test_the_gap_is_measured_against_a_bound_below_every_plan() -> None:
    points = list(gap.run({"sigma 5": gap.SETTINGS["sigma 5"]}, [0], [0.1, 0.2]))
    assert [point.seconds for point in points] == [0.1, 0.2]
    for point in points:
        assert point.bound_ms <= point.cost_ms <= point.best_baseline_ms <= point.reloc_ms
        assert point.gap == pytest.approx(point.cost_ms / point.bound_ms - 1)
    row = gap.summary(points)[0]
    assert row["setting"] == "sigma 5"
    assert len(gap.draw(points).axes) == 1


@pytest.mark.slow
def test_the_search_is_measured_against_proven_optima() -> None:
    points = list(placement_gap.run([1], search_limit_s=0.5))
    assert [point.objective for point in points] == ["d1", "d2", "d3"]
    for point in points:
        assert point.searched_ms >= point.bound_ms - 1e-6
        assert point.proved
    assert len(placement_gap.summary(points)) == 3


@pytest.mark.slow
def test_scale_is_measured_in_processes_of_their_own() -> None:
    points = list(plan_scale.run([1000], ["nearest", "optimised"], time_limit_s=8.0))
    nearest, optimised = points
    assert nearest.bound_ms is None
    assert optimised.bound_ms is not None
    assert optimised.bound_ms <= optimised.cost_ms <= nearest.cost_ms
    assert optimised.peak_mb > 10
    assert len(plan_scale.draw(points).axes) == 2


def test_replanning_lies_between_keeping_and_planning_anew() -> None:
    point = next(replanning.run(300, 0.05, 1.0, [0]))
    assert point.moved > 0
    assert point.replanned_ms <= point.kept_ms + 1e-9
    assert point.replan_migrations <= point.scratch_migrations
    assert point.time_share == pytest.approx(point.replan_seconds / point.scratch_seconds)
    assert np.isfinite(point.scratch_ms)

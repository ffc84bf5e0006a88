"""Deadlines of classes on live servers, at a small size."""

from __future__ import annotations

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.experiments.deadlines.probes import Probe
from nearcast.experiments.deadlines.saturation import DeadlinePoint, loads_differ


def test_what_never_arrived_was_not_in_time() -> None:
    probe = Probe("control", 10.0, sent=4, delays_ms=[1.0, 10.0, 10.1])
    assert probe.share_in_time == 0.5
    assert probe.at(0.5) == 10.0
    assert Probe("control", 10.0, sent=1).at(0.5) is None


def test_ways_with_different_loads_are_not_compared_in_silence() -> None:
    def point(load_hz: float) -> DeadlinePoint:
        return DeadlinePoint(True, "control", 10.0, 1, 1, 1.0, 1.0, 1.0, load_hz, 1.0)

    assert not loads_differ([point(3000.0), point(2999.0)])
    assert loads_differ([point(3000.0), point(2900.0)])


@pytest.mark.slow
def test_every_class_is_measured_with_classes_and_without(run: Run) -> None:  # noqa: F811
    answer = run("bench", "deadlines", "--seconds", "0.4", "--rate", "200", "--json")
    assert answer.code == 0, answer.err
    rows = answer.json["rows"]
    assert [row["with_classes"] for row in rows] == [True] * 4 + [False] * 4
    for row in rows:
        assert row["sent"] > 0
        assert 0 <= row["share_in_time"] <= 1
        assert row["load_hz"] > 0
        assert 0 < row["server_cpu_share"] < 2
        assert row["arrived"] <= row["sent"]
    classed = {row["message_class"]: row for row in rows[:4]}
    assert classed["emergency"]["arrived"] == classed["emergency"]["sent"]


@pytest.mark.slow
def test_a_budget_says_for_each_class_whether_it_holds(run: Run) -> None:  # noqa: F811
    answer = run("bench", "budget", "--deployments", "metropolitan", "--seconds", "1", "--json")
    assert answer.code == 0, answer.err
    rows = {row["message_class"]: row for row in answer.json["rows"]}
    assert list(rows) == ["emergency", "control", "lane_change", "consumer"]
    assert all(row["network_ms"] == 40 for row in rows.values())
    control = rows["control"]  # 40 ms of network are more than it has
    assert (control["system_ms"], control["holds"], control["share_in_time"]) == (-30, False, 0)
    for row in rows.values():
        assert row["holds"] == (row["share_in_time"] >= 0.99)
        assert row["p50_ms"] is None or row["p50_ms"] >= 40


def test_a_deployment_that_does_not_exist_is_named(run: Run) -> None:  # noqa: F811
    answer = run("bench", "budget", "--deployments", "moon")
    assert answer.code == 2
    assert "'moon'" in answer.err

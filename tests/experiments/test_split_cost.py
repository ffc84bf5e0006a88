from __future__ import annotations

from dataclasses import replace

import pytest

from nearcast.errors import PipelineError
from nearcast.experiments.split_cost import SplitPoint, make_scenario, summary

POINT = SplitPoint(
    setting="city",
    clients=100,
    servers=9,
    seed=0,
    parts=2,
    split_ms=1.0,
    memory_ms=1.0,
    cost_ratio=1.0,
    split_cpu_s=2.0,
    memory_cpu_s=2.2,
    split_s=1.0,
    memory_s=2.0,
    split_moves=10,
    memory_moves=11,
)


def points(split_ms: list[float], memory_ms: list[float]) -> list[SplitPoint]:
    return [
        replace(POINT, seed=seed, split_ms=ours, memory_ms=theirs)
        for seed, (ours, theirs) in enumerate(zip(split_ms, memory_ms, strict=True))
    ]


def test_the_summary_has_means_and_the_spread_of_memory() -> None:
    (row,) = summary(points([1.01, 1.03], [1.0, 1.02]))
    assert row["split_ms"] == pytest.approx(1.02)
    assert row["memory_ms"] == pytest.approx(1.01)
    assert row["excess_percent"] == pytest.approx(100 * (1.02 / 1.01 - 1))
    # Two values that are 0.02 apart deviate by 0.02 / sqrt(2).
    assert row["memory_spread_percent"] == pytest.approx(100 * 0.02 / 2**0.5 / 1.01)
    assert (row["split_cpu_s"], row["memory_cpu_s"]) == (2.0, 2.2)


@pytest.mark.parametrize(
    ("above_ms", "no_worse"), [(-0.1, "true"), (0.0, "true"), (0.027, "true"), (0.029, "false")]
)
def test_no_worse_means_within_two_standard_errors_of_memory(
    above_ms: float, no_worse: str
) -> None:
    # With two seeds the difference of two means deviates as one run does: by 0.01 * sqrt(2).
    memory_ms = [0.99, 1.01]
    (row,) = summary(points([ms + above_ms for ms in memory_ms], memory_ms))
    assert row["no_worse"] == no_worse


def test_one_seed_says_nothing_about_noise() -> None:
    (row,) = summary([POINT])
    assert row["no_worse"] is row["memory_spread_percent"] is None


def test_each_scenario_has_a_row_of_its_own() -> None:
    rows = summary([POINT, replace(POINT, setting="reloc2021"), replace(POINT, parts=1)])
    assert [(row["setting"], row["parts"]) for row in rows] == [
        ("city", 2),
        ("reloc2021", 2),
        ("city", 1),
    ]


@pytest.mark.parametrize("setting", ["reloc2021", "city"])
def test_a_setting_has_the_size_asked_for(setting: str) -> None:
    scenario = make_scenario(setting, 400, 17)
    assert len(scenario.servers) == (16 if setting == "reloc2021" else 17)
    assert len(scenario.topics) == 40
    assert 0.9 * 400 < len(scenario.clients) < 1.1 * 400


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(PipelineError, match="no setting 'moon'"):
        make_scenario("moon", 400, 16)

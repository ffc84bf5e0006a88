from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model
from nearcast.experiments import split_cost
from nearcast.pipeline.stages import plan_optimised
from nearcast.pipeline.stages.plan_optimised import search_in_parts
from nearcast.pipeline.stages.shared_scenario import share_scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.ratio.parts import Stretch
from nearcast.planning.request import PlanRequest
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = generate_reloc2021(Reloc2021(topics=40, servers_per_side=4), seed=3)


class HandWatch(Stopwatch):
    """A watch that shows what the test sets."""

    now_s = 0.0

    def seconds(self) -> float:
        return self.now_s


def given_by(request: PlanRequest, parts: int, cores: int, watch: Stopwatch) -> Iterator[Stretch]:
    return plan_optimised._stretches(request, len(SCENARIO.clients), 1.0, parts, cores, watch)


def stretches_within(limit_s: float, parts: int, cores: int, lost_s: float) -> list[Stretch]:
    """Return the stretches if each takes all its time on the cores, and `lost_s` more."""
    watch, given = HandWatch(limit_s), []
    request = PlanRequest(Model.RATIO, time_limit_s=limit_s)
    for stretch in given_by(request, parts, cores, watch):
        assert stretch.time_limit_s is not None
        in_turn = 1 if stretch.window[1] == 1 else -(-parts // cores)
        watch.now_s += in_turn * stretch.time_limit_s + lost_s
        given.append(stretch)
    return given


@pytest.mark.parametrize(("parts", "cores"), [(4, 1), (4, 2), (4, 4), (2, 8), (5, 2)])
def test_every_stretch_gets_equal_cpu_time_for_its_width(parts: int, cores: int) -> None:
    given = stretches_within(60.0, parts, min(cores, parts), lost_s=0.0)
    density = []
    for stretch in given:
        begin, end = stretch.window
        tasks = parts if end < 1 else 1
        density.append(tasks * (stretch.time_limit_s or 0.0) / (end - begin))
    assert density == pytest.approx([density[0]] * len(given))
    assert given[-1].window[1] == 1


@pytest.mark.parametrize("lost_s", [0.0, 0.5, 2.0])
def test_a_time_limit_is_kept_but_for_what_the_first_stretch_lost(lost_s: float) -> None:
    given = stretches_within(60.0, 4, 2, lost_s)
    clock_s = sum((2 if one.window[1] < 1 else 1) * (one.time_limit_s or 0.0) for one in given)
    assert clock_s + len(given) * lost_s == pytest.approx(60.0)


def test_a_hopeless_time_limit_still_leaves_each_stretch_a_moment() -> None:
    assert all((one.time_limit_s or 0.0) > 0 for one in stretches_within(1.0, 4, 2, lost_s=5.0))


def test_the_stretches_are_the_whole_schedule() -> None:
    request = PlanRequest(Model.RATIO, iterations=101 * len(SCENARIO.clients))
    given = list(given_by(request, 4, 2, Stopwatch()))
    assert [one.window[0] for one in given] == [0.0, *(one.window[1] for one in given[:-1])]
    assert sum(one.sweeps or 0 for one in given) == 101
    assert len({one.seed for one in given}) == len(given)


def test_a_split_within_a_time_limit_ends_below_every_start(spark: SparkSession) -> None:
    request = PlanRequest(Model.RATIO, time_limit_s=0.4)
    with share_scenario(spark, SCENARIO) as shared:
        found = search_in_parts(spark, shared, SCENARIO, request, parts=2)
    assert found is not None
    cost = assess_homes(SCENARIO, found.homes, Model.RATIO).cost
    assert found.search["cost"] == pytest.approx(cost)
    assert found.search["iterations"] > 0
    assert cost < assess_homes(SCENARIO, nearest_homes(SCENARIO), Model.RATIO).cost


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let little be enough for a split."""
    monkeypatch.setattr(plan_optimised, "CLIENTS_PER_PART", 100)
    monkeypatch.setattr(plan_optimised, "_SERVERS_PER_PART", 8)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("length", "is_split"),
    [
        ({"iterations": 399 * len(SCENARIO.clients)}, False),
        ({"iterations": 400 * len(SCENARIO.clients)}, True),
        ({"time_limit_s": 400 * len(SCENARIO.clients) / 8e6}, False),
        ({"iterations": 10**9, "time_limit_s": 0.001}, False),
        ({"time_limit_s": 400 * len(SCENARIO.clients) / 6e6}, True),
    ],
)
def test_only_a_long_search_is_split(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, length: dict[str, float], is_split: bool
) -> None:
    monkeypatch.setattr(plan_optimised, "_MOST_ACROSS", 1.0)
    request = PlanRequest(Model.RATIO, **length)  # type: ignore[arg-type]
    with share_scenario(spark, SCENARIO) as shared:
        assert (search_in_parts(spark, shared, SCENARIO, request) is not None) == is_split


@pytest.mark.usefixtures("small_parts")
def test_topics_across_parts_are_split_only_on_demand(spark: SparkSession) -> None:
    city = generate_city(City(clients=300, servers=16, topics=30), seed=1)
    request = PlanRequest(Model.RATIO, iterations=400 * len(city.clients))
    with share_scenario(spark, city) as shared:
        assert search_in_parts(spark, shared, city, request) is None
        found = search_in_parts(spark, shared, city, request, parts=3)
    assert found is not None
    assert found.search["parts"] == 3


@pytest.mark.parametrize("parts", [None, 2])
def test_the_benchmark_compares_plans_of_both_ways(spark: SparkSession, parts: int | None) -> None:
    length = split_cost.Length(sweeps=30)
    (point,) = split_cost.run(spark, {"mine": SCENARIO}, [5], length, parts=parts)
    assert (point.setting, point.seed, point.parts) == ("mine", 5, parts or 1)
    assert point.cost_ratio == pytest.approx(point.split_ms / point.memory_ms)
    nearest_ms = assess_homes(SCENARIO, nearest_homes(SCENARIO), Model.RATIO).cost
    assert max(point.split_ms, point.memory_ms) < nearest_ms
    assert point.split_moves == 30 * len(SCENARIO.clients)
    assert np.isfinite([point.split_cpu_s, point.memory_cpu_s]).all()
    if parts is None:
        # One task is the search of memory itself.
        assert point.split_ms == point.memory_ms
        assert point.memory_moves == point.split_moves

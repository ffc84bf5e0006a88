"""From request to plan: completion, brokers, bounds and limits."""

from __future__ import annotations

import numpy as np
import pytest

from delay.reference import random_homes, random_scenario, ratio
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model
from nearcast.planning.assessment import assess_homes
from nearcast.planning.request import PlanRequest, Progress
from nearcast.planning.solve import gap_to, make_plan, plan_of_homes


@pytest.mark.parametrize("seed", range(8))
def test_the_brokers_of_a_plan_are_where_somebody_publishes_and_their_shares_add_up(
    seed: int,
) -> None:
    scenario = random_scenario(seed)
    homes = random_homes(scenario, seed)
    value = assess_homes(scenario, homes, Model.RATIO)
    plan = plan_of_homes(scenario, homes, value.local_share)
    members = scenario.members
    expected = {
        (int(members.topic[row]), int(homes[members.client[row]]))
        for row in range(len(members))
        if members.publishes[row]
    }
    shares: dict[tuple[int, int], float] = {}
    theta = ratio(scenario, homes).theta
    for topic, server, on_edge, share in zip(
        plan.brokers.topic.tolist(),
        plan.brokers.server.tolist(),
        plan.brokers.on_edge.tolist(),
        plan.brokers.share.tolist(),
        strict=True,
    ):
        shares[topic, server] = shares.get((topic, server), 0.0) + share
        assert share == pytest.approx(theta[server] if on_edge else 1 - theta[server])
    assert set(shares) == expected
    assert all(total == pytest.approx(1.0) for total in shares.values())
    sends = plan.publish >= 0
    assert np.array_equal(sends, members.publishes)
    assert np.array_equal(plan.publish[sends], homes[members.client[sends]])


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("method", ["nearest", "optimised"])
def test_cost_lies_between_bound_and_the_nearest_plan(model: Model, method: str) -> None:
    scenario = random_scenario(11)
    request = PlanRequest(model=model, method=method, iterations=20_000)
    report = make_plan(scenario, request).report
    nearest = make_plan(scenario, PlanRequest(model=model, method="nearest")).report
    assert report.bound is not None
    assert report.bound <= report.cost + 1e-12
    assert report.cost <= nearest.cost + 1e-9
    assert report.gap == pytest.approx(gap_to(report.cost, report.bound))


def test_a_known_bound_is_used_instead_of_finding_one() -> None:
    scenario = random_scenario(5)
    request = PlanRequest(model=Model.RATIO, method="nearest")
    report = make_plan(scenario, request, known_bound=0.125, known_limits={}).report
    assert report.bound == min(0.125, report.cost)
    assert report.limits == {}


def test_the_reported_bound_is_no_lower_than_a_limit() -> None:
    scenario = random_scenario(5)
    for model in (Model.RATIO, Model.CONNECTIONS):
        request = PlanRequest(model=model, method="nearest")
        cost = make_plan(scenario, request).report.cost
        limits = {"speed_ms": None, "one_server_ms": 0.75 * cost}
        report = make_plan(scenario, request, known_bound=0.5 * cost, known_limits=limits).report
        assert report.bound == 0.75 * cost


@pytest.mark.parametrize(
    ("cost", "bound", "gap"),
    [(1.5, 1.0, 0.5), (1.0, None, None), (0.0, 0.0, 0.0), (1.0, 0.0, None), (1.0, 1.0, 0.0)],
)
def test_the_gap_is_relative_to_the_bound(
    cost: float, bound: float | None, gap: float | None
) -> None:
    assert gap_to(cost, bound) == gap


@pytest.mark.parametrize("model", list(Model))
def test_ctrl_c_ends_the_search_and_keeps_the_plan(model: Model) -> None:
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if sum(one.cost is not None for one in seen) == 1:
            raise KeyboardInterrupt

    scenario = generate_reloc2021(Reloc2021(topics=4), seed=0)
    request = PlanRequest(model=model, iterations=10_000_000, on_progress=interrupt)
    report = make_plan(scenario, request).report
    assert 0 < report.search["iterations"] < 10_000_000
    assert report.bound is not None
    assert 0 < report.bound <= report.cost
    if model is not Model.PLACEMENT:
        nearest = make_plan(scenario, PlanRequest(model=model, method="nearest")).report
        assert report.cost <= nearest.cost

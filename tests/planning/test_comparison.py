"""All methods against one bound; one that fails does not spoil the others."""

from __future__ import annotations

import pytest

from nearcast import City, Model, PlanRequest, compare_methods, generate_city, methods_for
from nearcast.domain.scenario import Scenario
from nearcast.errors import PlanningError
from nearcast.planning.comparison import comparison_json


@pytest.fixture(scope="module")
def city() -> Scenario:
    """A small city."""
    return generate_city(City(clients=40, servers=3, topics=6), seed=4)


@pytest.mark.parametrize("model", list(Model))
def test_the_best_comes_first_and_nobody_is_below_the_bound(city: Scenario, model: Model) -> None:
    request = PlanRequest(model=model, iterations=5000)
    names = [name for name in methods_for(model) if name != "exact"]
    comparison = compare_methods(city, request, names)
    costs = [one.report.cost for one in comparison.outcomes]
    assert costs == sorted(costs)
    assert len(costs) == len(names)
    assert comparison.bound <= costs[0] * (1 + 1e-9)
    assert {one.report.bound for one in comparison.outcomes} == {comparison.bound}
    assert comparison_json(comparison)["methods"][0]["cost"] == costs[0]


def test_exact_is_left_out_of_large_comparisons_and_says_so(city: Scenario) -> None:
    comparison = compare_methods(city, PlanRequest(model=Model.RATIO), ["nearest", "exact"])
    assert [one.report.method for one in comparison.outcomes] == ["nearest"]
    assert "exact" in comparison.failures[0]


def test_unknown_methods_are_refused_before_the_work() -> None:
    with pytest.raises(PlanningError, match="nonsense"):
        methods_for(Model.RATIO, ["nearest", "nonsense"])

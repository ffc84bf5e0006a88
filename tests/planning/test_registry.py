"""Methods by name, and planners that users plug in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nearcast import City, Model, PlanRequest, compare_methods, generate_city, methods_for
from nearcast.errors import PlanningError
from nearcast.planning.registry import find_method, method_names

PLANNER = '''
import numpy as np
from nearcast import Decision, Model

class FirstServer:
    """Everybody at the first server."""
    name = "first-server"
    models = frozenset(Model)

    def plan(self, scenario, request):
        return Decision(homes=np.zeros(len(scenario.clients), dtype=np.int32))
'''


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of a user's own with two planners, one of them broken."""
    (tmp_path / "my_planner.py").write_text(PLANNER)
    info = tmp_path / "my_planner-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-planner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nearcast.planners]\nfirst-server = my_planner:FirstServer\nbroken = my_planner:Missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_planner", raising=False)


@pytest.mark.usefixtures("plugged_in")
def test_a_planner_of_the_users_own_appears_in_compare() -> None:
    city = generate_city(City(clients=40, servers=3, topics=6), seed=1)
    names = methods_for(Model.RATIO)
    assert "first-server" in names
    assert "broken" not in names
    request = PlanRequest(model=Model.RATIO, time_limit_s=0.2)
    comparison = compare_methods(city, request, ["nearest", "first-server"])
    assert {one.report.method for one in comparison.outcomes} == {"nearest", "first-server"}
    mine = next(one for one in comparison.outcomes if one.report.method == "first-server")
    assert set(mine.plan.homes.tolist()) == {0}


@pytest.mark.usefixtures("plugged_in")
def test_a_broken_planner_is_named() -> None:
    with pytest.raises(PlanningError, match=r"'broken' \(my_planner:Missing\)"):
        find_method("broken", Model.RATIO)


def test_an_unknown_method_lists_the_known_ones() -> None:
    with pytest.raises(PlanningError, match="there are: random, nearest"):
        find_method("nonsense", Model.RATIO)


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("model", list(Model))
def test_every_built_in_method_plans_every_model(name: str, model: Model) -> None:
    method = find_method(name, model)
    assert method.name == name

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nearcast.domain import fingerprint, tables
from nearcast.domain import scenario as scenario_module
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.plan_files import read_plan
from nearcast.errors import PlanningError
from nearcast.pipeline.driver_objects import watch_objects
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages import plan_limits, plan_optimised, plan_reloc, plan_totals
from nearcast.pipeline.stages.plan import plan_by_regions, plan_scenario
from nearcast.pipeline.stages.plan_limits import find_limits
from nearcast.pipeline.stages.plan_totals import assess_on_executors
from nearcast.pipeline.stages.shared_scenario import share_scenario
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.assessment import assess, assess_homes, limits_of
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.optimised import search_plan
from nearcast.planning.regions import divide_into_regions
from nearcast.planning.registry import find_method
from nearcast.planning.relations import relate_clients
from nearcast.planning.request import Decision, PlanRequest
from pipeline.random_scenarios import random_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread small scenarios over tasks too."""
    monkeypatch.setattr(plan_reloc, "_FEWEST_ROWS", 20)
    monkeypatch.setattr(plan_optimised, "CLIENTS_PER_PART", 100)
    monkeypatch.setattr(plan_optimised, "_SERVERS_PER_PART", 8)
    monkeypatch.setattr(plan_optimised, "_MOST_ACROSS", 1.0)


def decide(workspace: Workspace, seed: int, request: PlanRequest) -> tuple[Decision, Decision]:
    """Return the decisions on executors and in memory."""
    scenario = random_scenario(seed, measured=seed % 2 == 1)
    regions = None
    if request.regions is not None:
        regions = divide_into_regions(scenario, request.regions, request.seed)
    relations = relate_clients(scenario, request.related_clients)
    record = StageRecord("plan")
    found = plan_by_regions(workspace, scenario, request, relations, regions, record)
    return found, find_method(request.method, request.model).plan(scenario, request)


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize(("seed", "regions"), [(0, 1), (1, 3), (2, 5), (3, 8)])
def test_reloc_by_regions_is_reloc(
    workspace: Workspace, model: Model, seed: int, regions: int
) -> None:
    request = PlanRequest(model, "reloc", regions=regions, related_clients=9, seed=seed)
    found, expected = decide(workspace, seed, request)
    assert found.homes.tolist() == expected.homes.tolist()
    assert found.search == expected.search


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("method", ["reloc", "relation"])
def test_the_number_of_regions_is_chosen_as_in_memory(workspace: Workspace, method: str) -> None:
    found, expected = decide(workspace, 4, PlanRequest(Model.RATIO, method, related_clients=9))
    assert found.homes.tolist() == expected.homes.tolist()
    assert found.search == expected.search
    assert len(found.search["regions_tried"]) > 3


@pytest.mark.parametrize("method", ["nearest", "otos"])
def test_other_methods_run_as_they_are(workspace: Workspace, method: str) -> None:
    found, expected = decide(workspace, 5, PlanRequest(Model.CONNECTIONS, method))
    assert found.homes.tolist() == expected.homes.tolist()


@pytest.mark.usefixtures("many_tasks")
def test_a_search_in_parts_is_as_good_as_that_of_the_whole(workspace: Workspace) -> None:
    scenario = generate_reloc2021(Reloc2021(topics=40, servers_per_side=4), seed=3)
    request = PlanRequest(Model.RATIO, iterations=400 * len(scenario.clients), bound_limit_s=0.1)
    given = workspace, scenario, request, None, None
    record = StageRecord("plan")
    found = plan_by_regions(*given, record)
    again = plan_by_regions(*given, StageRecord("plan"))
    assert found.homes.tolist() == again.homes.tolist()
    assert found.search["parts"] >= 2
    assert "searched" not in record.notes
    cost = assess_homes(scenario, found.homes, Model.RATIO).cost
    assert cost == pytest.approx(found.search["cost"])
    nearest = assess_homes(scenario, nearest_homes(scenario), Model.RATIO).cost
    whole = float(search_plan(scenario, request).search["cost"])
    assert found.bound is not None
    assert found.bound <= cost <= min(1.01 * whole, nearest)


def test_a_small_search_is_that_of_memory(workspace: Workspace) -> None:
    scenario = random_scenario(7)
    request = PlanRequest(Model.RATIO, iterations=20_000, bound_limit_s=0.1)
    found = plan_by_regions(workspace, scenario, request, None, None, StageRecord("plan"))
    assert found.homes.tolist() == search_plan(scenario, request).homes.tolist()


@pytest.mark.parametrize("model", [Model.CONNECTIONS, Model.PLACEMENT])
def test_the_plan_is_written_with_its_report(workspace: Workspace, model: Model) -> None:
    scenario, record = random_scenario(8), StageRecord("plan")
    request = PlanRequest(model, iterations=5_000, bound_limit_s=0.1)
    outcome = plan_scenario(workspace, scenario, request, record)
    plan, report = read_plan(workspace.folder / "plan", scenario)
    assert assess(scenario, plan, model).cost == pytest.approx(report["cost"])
    assert outcome.report.status is not PlanStatus.HEURISTIC
    assert report["bound"] <= report["cost"] * (1 + 1e-9)
    homes = workspace.load("homes").toArrow().to_pandas().set_index("client_index").sort_index()
    assert homes.server_index.tolist() == plan.homes.tolist()
    assert record.tables == {"homes": len(scenario.clients)}


@pytest.mark.parametrize(("measured", "limit_s"), [(False, None), (True, None), (False, 2e-6)])
def test_limits_on_executors_are_those_of_memory(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, measured: bool, limit_s: float | None
) -> None:
    monkeypatch.setattr(plan_limits, "_PAIRS_OF_A_TASK", 50)
    monkeypatch.setattr(scenario_module, "_ROWS_OF_A_PIECE", 7)
    scenario, record = random_scenario(3, measured=measured), StageRecord("plan")
    with share_scenario(workspace.spark, scenario) as shared:
        spark = workspace.spark
        found = find_limits(spark, shared, scenario, Model.RATIO, limit_s, record)
    # Two cores may look at twice as many pairs.
    expected = limits_of(scenario, Model.RATIO, None if limit_s is None else 2 * limit_s)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-12))
    assert ("limits" in record.notes) == (limit_s is not None)
    assert (found["speed_ms"] is None) == (measured or limit_s is not None)


def test_what_a_method_refuses_is_said_plainly(workspace: Workspace) -> None:
    scenario = random_scenario(9)
    with pytest.raises(PlanningError, match="there is no method 'nonsense'"):
        plan_scenario(
            workspace, scenario, PlanRequest(Model.RATIO, "nonsense"), StageRecord("plan")
        )


@pytest.mark.parametrize("model", [Model.RATIO, Model.CONNECTIONS])
def test_homes_are_worth_on_executors_what_they_are_in_memory(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    scenario = random_scenario(5)
    homes = np.random.default_rng(1).integers(0, len(scenario.servers), len(scenario.clients))
    expected = assess_homes(scenario, homes.astype(np.int32), model)
    monkeypatch.setattr(plan_totals, "_ROWS_OF_A_BLOCK", 9)
    with share_scenario(spark, scenario) as shared:
        found, cpu_s = assess_on_executors(spark, shared, scenario, homes.astype(np.int32), model)
    assert cpu_s > 0
    assert found.metrics == pytest.approx(expected.metrics, rel=1e-12)
    np.testing.assert_allclose(found.local_share, expected.local_share, rtol=1e-12)
    assert found.clients.tolist() == expected.clients.tolist()


@pytest.mark.parametrize("method", ["optimised", "nearest"])
def test_the_driver_holds_little_for_each_member(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Search, bound, limits and value are a worker's, and what is written goes in pieces.

    Messages of the bound alone would be some 1,000 bytes a member.
    """
    monkeypatch.setattr(plan_totals, "_ROWS_OF_A_BLOCK", 5_000)
    for module in (scenario_module, fingerprint, tables):
        monkeypatch.setattr(module, "_ROWS_OF_A_PIECE", 500)
    scenario = generate_reloc2021(Reloc2021(sigma_km=5.0, topics=2_000), seed=1)
    request = PlanRequest(Model.RATIO, method, iterations=1_000)
    with watch_objects() as largest:
        tracemalloc.start()
        try:
            plan_scenario(workspace, scenario, request, StageRecord("plan"))
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # Its rates, which a stage maps; and most of the peak is the clients, of whom there are as many.
    assert largest.size_bytes == 8 * len(scenario.members)
    assert peak_bytes < 100 * len(scenario.members)

"""Overload is what lies above a limit, by the resources of each model."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.delay.connections import connections_problem, evaluate_connections
from nearcast.delay.placement import evaluate_placement, placement_problem
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.pictures.server_load import PlanCost, cost_text, overloaded_servers, server_resources
from pictures.small_loads import ratio_cost, small_scenario, with_limits


def test_a_server_is_overloaded_only_above_a_limit_beyond_rounding() -> None:
    scenario = with_limits(
        small_scenario(2), storage=np.array([10.0, 10, 10, 0]), compute=np.full(4, np.inf)
    )
    used = np.array([10 * (1 + 1e-12), 10.1, 0, 1])
    resources = server_resources(scenario, ratio_cost(4, used, np.full(4, 1e9)))
    assert overloaded_servers(resources).tolist() == [False, True, False, True]
    assert resources[0].share == pytest.approx([1.0, 1.01, 0.0, np.inf])


def test_each_model_shows_its_own_resources_and_value() -> None:
    scenario = small_scenario()
    homes = (np.arange(len(scenario.clients)) % len(scenario.servers)).astype(np.int32)
    publish = homes[scenario.members.client]
    ratio = evaluate_ratio(ratio_problem(scenario), homes)
    connections = evaluate_connections(connections_problem(scenario), homes)
    brokers = np.ones((len(scenario.topics), len(scenario.servers)), dtype=np.bool_)
    placement = evaluate_placement(placement_problem(scenario), homes, publish, brokers)
    names: list[tuple[PlanCost, list[str]]] = [
        (ratio, ["storage", "compute"]),
        (connections, ["storage", "clients"]),
        (placement, ["storage"]),
    ]
    for cost, expected in names:
        assert [resource.name for resource in server_resources(scenario, cost)] == expected
    assert cost_text(ratio) == f"Y = {ratio.y_ms:.3f} ms a delivery"
    assert f"mean {placement.d1_ms / placement.pairs:.3f} ms" in cost_text(placement)

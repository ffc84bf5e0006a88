"""RA, NS and LO: random, nearest, random within the region."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.methods import region_count
from nearcast.planning.methods.nearest import Nearest
from nearcast.planning.methods.random_homes import RandomHomes
from nearcast.planning.methods.region import RandomInRegion
from nearcast.planning.regions import divide_into_regions
from nearcast.planning.request import PlanRequest

MakeScenario = Callable[..., Scenario]


def test_random_homes_use_every_server_alike(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(0, clients=8_000)
    homes = RandomHomes().plan(scenario, PlanRequest(Model.RATIO, seed=3)).homes
    assert np.bincount(homes, minlength=8).min() > 850
    assert np.bincount(homes, minlength=8).max() < 1_150


@pytest.mark.parametrize("method", [RandomHomes(), RandomInRegion()])
def test_the_seed_decides_the_draw(
    make_scenario: MakeScenario, method: RandomHomes | RandomInRegion
) -> None:
    scenario = make_scenario(0)
    first, again, other = (
        method.plan(scenario, PlanRequest(Model.RATIO, regions=1, seed=seed)).homes
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_nearest_is_the_server_with_the_smallest_distance(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(1, clients=300, servers=25)
    homes = Nearest().plan(scenario, PlanRequest(Model.RATIO)).homes
    for client, home in enumerate(homes.tolist()):
        km = np.hypot(
            scenario.servers.x_km - scenario.clients.x_km[client],
            scenario.servers.y_km - scenario.clients.y_km[client],
        )
        assert home == km.argmin()


def test_the_first_of_equally_near_servers_is_taken(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(1, servers=16)
    scenario.servers.x_km[:] = np.tile(np.arange(4.0), 4)
    scenario.servers.y_km[:] = np.repeat(np.arange(4.0), 4)
    scenario.clients.x_km[:] = 1.5
    scenario.clients.y_km[:] = 1.5
    assert set(Nearest().plan(scenario, PlanRequest(Model.RATIO)).homes.tolist()) == {5}


def test_nearest_goes_by_measured_delays_where_there_are_any(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(1)
    measured = np.random.default_rng(0).uniform(1, 2, (40, 8))
    scenario = dataclasses.replace(scenario, client_server_ms=measured)
    homes = Nearest().plan(scenario, PlanRequest(Model.RATIO)).homes
    np.testing.assert_array_equal(homes, measured.argmin(axis=1))


def test_one_server_is_everybodys_home(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(1, servers=1)
    for method in (RandomHomes(), Nearest(), RandomInRegion()):
        assert not method.plan(scenario, PlanRequest(Model.RATIO)).homes.any()


def test_a_client_is_drawn_into_every_server_of_its_region_only(
    make_scenario: MakeScenario,
) -> None:
    scenario = make_scenario(2, clients=4_000)
    homes = RandomInRegion().plan(scenario, PlanRequest(Model.RATIO, regions=3, seed=4)).homes
    regions = divide_into_regions(scenario, 3, 4)
    np.testing.assert_array_equal(regions.server_region[homes], regions.client_region)
    inhabited = np.isin(regions.server_region, np.unique(regions.client_region))
    np.testing.assert_array_equal(np.unique(homes), np.flatnonzero(inhabited))


def test_automatic_regions_work_for_random_homes_too(make_scenario: MakeScenario) -> None:
    for model in Model:
        request = PlanRequest(model, regions=None)
        decision = RandomInRegion().plan(make_scenario(2), request)
        tried = decision.search["regions_tried"]
        assert list(tried) == [1, 2, 3, 4, 6, 8]
        assert tried[decision.search["regions"]] == min(tried.values())


def test_a_time_limit_ends_the_search_for_regions_after_the_first_try(
    make_scenario: MakeScenario,
) -> None:
    request = PlanRequest(Model.RATIO, regions=None, time_limit_s=1e-9)
    assert RandomInRegion().plan(make_scenario(2), request).search["regions"] == 1


def test_the_walk_keeps_the_best_of_fewer_tries(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(5, servers=64)
    request = PlanRequest(Model.RATIO, regions=None)
    every = RandomInRegion().plan(scenario, request).search["regions_tried"]
    monkeypatch.setattr(region_count, "_MOST_ROWS", 0)
    decision = RandomInRegion().plan(scenario, request)
    walked = decision.search["regions_tried"]
    assert len(walked) < len(every)
    assert walked.items() <= every.items()
    assert walked[decision.search["regions"]] == min(walked.values())

"""Regions: K-means of the servers, nearest centre for the clients."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Scenario
from nearcast.planning.regions import Regions, divide_into_regions


def with_servers(x_km: list[float], y_km: list[float]) -> Scenario:
    side = 1 if len(x_km) == 1 else 4
    scenario = generate_reloc2021(Reloc2021(servers_per_side=side, topics=5), 0)
    columns = {
        field.name: getattr(scenario.servers, field.name)[: len(x_km)]
        for field in dataclasses.fields(scenario.servers)
    }
    columns |= {"x_km": np.array(x_km), "y_km": np.array(y_km)}
    return dataclasses.replace(scenario, servers=type(scenario.servers)(**columns))


def spread(scenario: Scenario, label: tuple[int, ...] | np.ndarray) -> float:
    """Return the summed squared distance of the servers to the centres of their groups."""
    place = np.column_stack([scenario.servers.x_km, scenario.servers.y_km])
    groups = (place[np.asarray(label) == k] for k in set(np.asarray(label).tolist()))
    return float(sum(((group - group.mean(axis=0)) ** 2).sum() for group in groups))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_regions_are_the_best_grouping_of_few_servers(count: int) -> None:
    rng = np.random.default_rng(count)
    for seed in range(5):
        scenario = with_servers(rng.uniform(0, 9, 7).tolist(), rng.uniform(0, 9, 7).tolist())
        regions = divide_into_regions(scenario, count, seed)
        best = min(spread(scenario, label) for label in itertools.product(range(count), repeat=7))
        assert spread(scenario, regions.server_region) == pytest.approx(best)


def test_four_regions_of_the_papers_grid_are_its_quarters() -> None:
    scenario = generate_reloc2021(Reloc2021(), 0)
    regions = divide_into_regions(scenario, 4, 0)
    quarter = 2 * (scenario.servers.x_km > 12) + (scenario.servers.y_km > 12)
    np.testing.assert_array_equal(regions.server_region, quarter)
    expected = 2 * (scenario.clients.x_km > 12.5) + (scenario.clients.y_km > 12.5)
    np.testing.assert_array_equal(regions.client_region, expected)


def check_consistent(regions: Regions) -> None:
    for region in range(regions.count):
        own = regions.servers[regions.start[region] : regions.start[region + 1]]
        np.testing.assert_array_equal(own, np.flatnonzero(regions.server_region == region))
        assert len(own)
    first = [int(np.flatnonzero(regions.server_region == k)[0]) for k in range(regions.count)]
    assert first == sorted(first)


@pytest.mark.parametrize("count", [1, 5, 16, 40])
def test_the_listing_agrees_and_clients_have_the_nearest_centre(count: int) -> None:
    scenario = generate_reloc2021(Reloc2021(), 1)
    regions = divide_into_regions(scenario, count, 2)
    assert regions.count == min(count, 16)
    check_consistent(regions)
    for client in range(0, len(scenario.clients), 29):
        away = [
            np.hypot(
                scenario.servers.x_km[regions.server_region == k].mean()
                - scenario.clients.x_km[client],
                scenario.servers.y_km[regions.server_region == k].mean()
                - scenario.clients.y_km[client],
            )
            for k in range(regions.count)
        ]
        assert away[regions.client_region[client]] == pytest.approx(min(away))


def test_the_seed_decides_the_regions() -> None:
    scenario = generate_reloc2021(Reloc2021(servers_per_side=9), 1)
    first, again = (divide_into_regions(scenario, 7, 3) for _ in range(2))
    np.testing.assert_array_equal(first.server_region, again.server_region)
    np.testing.assert_array_equal(first.client_region, again.client_region)


def test_servers_at_one_place_share_a_region() -> None:
    regions = divide_into_regions(with_servers([1.0] * 3 + [8.0] * 3, [2.0] * 6), 4, 0)
    assert regions.server_region.tolist() == [0, 0, 0, 1, 1, 1]
    check_consistent(regions)


def test_one_server_is_one_region() -> None:
    regions = divide_into_regions(with_servers([3.0], [4.0]), 5, 0)
    assert regions.count == 1
    assert not regions.client_region.any()

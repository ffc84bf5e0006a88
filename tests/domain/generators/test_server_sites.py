import numpy as np
import pytest

from nearcast.domain.generators.server_sites import grid_places_km, grid_servers, tight_totals


def test_the_grid_of_the_paper_comes_out() -> None:
    servers = grid_servers(4, 25.0, 640.0, 3200.0, 100.0)
    places = list(zip(servers.x_km.tolist(), servers.y_km.tolist(), strict=True))
    assert places == [pytest.approx((x, y)) for x in (5, 10, 15, 20) for y in (5, 10, 15, 20)]
    assert set(servers.storage.tolist()) == {640}
    assert set(servers.compute.tolist()) == {3200}
    assert set(servers.client_limit.tolist()) == {100}


def test_a_grid_fills_a_rectangle() -> None:
    assert grid_places_km(1, 8.0, 2.0).tolist() == [[4, 1]]
    assert grid_places_km(2, 3.0, 6.0).tolist() == [[1, 2], [1, 4], [2, 2], [2, 4]]


def test_two_copies_fill_70_percent_of_the_storage_and_the_load_55_of_the_compute() -> None:
    storage, compute = tight_totals(np.array([3.0, 4.0]), np.array([2.0, 5.0]))
    assert (0.7 * storage, 0.55 * compute) == pytest.approx((2 * (3 + 4), 3 * 2 + 4 * 5))

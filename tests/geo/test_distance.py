import math

import numpy as np
import pytest

from nearcast.geo.distance import distance_km, distance_matrix_km, nearest


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x_km, y_km = np.random.default_rng(seed).uniform(0, 20, (2, count))
    return x_km, y_km


def test_distances_are_euclidean() -> None:
    found = distance_km(
        np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([3.0]), np.array([4.0])
    )
    assert found.tolist() == pytest.approx([5.0, math.dist((1, 1), (3, 4))])


def test_the_matrix_has_every_pair() -> None:
    (ax, ay), (bx, by) = points(7, 1), points(5, 2)
    wanted = [[math.dist((ax[i], ay[i]), (bx[j], by[j])) for j in range(5)] for i in range(7)]
    np.testing.assert_allclose(distance_matrix_km(ax, ay, bx, by), wanted)


@pytest.mark.parametrize(("count", "found"), [(1, 1), (3, 3), (99, 6)])
def test_the_nearest_come_first_and_there_are_no_more_than_exist(count: int, found: int) -> None:
    (ax, ay), (bx, by) = points(40, 3), points(6, 4)
    gap_km, index = nearest(ax, ay, bx, by, count)
    assert gap_km.shape == index.shape == (40, found)
    assert index.dtype == np.int32
    for i in range(40):
        ranked = sorted(range(6), key=lambda j: math.dist((ax[i], ay[i]), (bx[j], by[j])))
        assert index[i].tolist() == ranked[:found]
        wanted = [math.dist((ax[i], ay[i]), (bx[j], by[j])) for j in ranked[:found]]
        assert gap_km[i].tolist() == pytest.approx(wanted)

"""Euclidean distances between points in kilometres, by pair and by nearest neighbour."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["distance_km", "distance_matrix_km", "nearest"]

Floats = npt.NDArray[np.float64]


def distance_km(ax_km: Floats, ay_km: Floats, bx_km: Floats, by_km: Floats) -> Floats:
    """Return the distances of points a to points b, element by element (broadcast)."""
    return np.hypot(ax_km - bx_km, ay_km - by_km)


def distance_matrix_km(ax_km: Floats, ay_km: Floats, bx_km: Floats, by_km: Floats) -> Floats:
    """Return all distances [a, b]."""
    return distance_km(ax_km[:, None], ay_km[:, None], bx_km[None, :], by_km[None, :])


def nearest(
    ax_km: Floats, ay_km: Floats, bx_km: Floats, by_km: Floats, count: int
) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the `count` points b nearest to each point a: distances and indices [a, rank]."""
    from scipy.spatial import cKDTree

    count = min(count, len(bx_km))
    tree = cKDTree(np.column_stack([bx_km, by_km]))
    found, index = tree.query(np.column_stack([ax_km, ay_km]), k=count)
    return (
        found.reshape(len(ax_km), count),
        index.reshape(len(ax_km), count).astype(np.int32),
    )

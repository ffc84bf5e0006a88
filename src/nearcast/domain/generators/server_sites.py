"""Edge servers on a grid, and limits that are tight enough for planning to matter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import FloatArray, Servers

__all__ = ["grid_places_km", "grid_servers", "tight_totals"]

_STORAGE_SHARE_OF_TWO_COPIES = 0.7
_COMPUTE_SHARE = 0.55


def grid_places_km(side: int, width_km: float, height_km: float) -> FloatArray:
    """Return side x side places [server, (x, y)], evenly spread and away from the border."""
    axis = np.arange(1, side + 1) / (side + 1)
    x, y = np.meshgrid(width_km * axis, height_km * axis, indexing="ij")
    return np.column_stack([x.ravel(), y.ravel()])


def grid_servers(
    side: int,
    field_km: float,
    storage: float,
    compute: float,
    client_limit: float = np.inf,
) -> Servers:
    """Return side x side equal servers inside a square field, as the papers place them.

    Side 4 in a field of 25 km gives the grid {5, 10, 15, 20} x {5, 10, 15, 20} of 2021.
    """
    x_km, y_km = grid_places_km(side, field_km, field_km).T.copy()
    count = side * side
    return Servers(
        ids=pa.array(np.arange(count)),
        x_km=x_km,
        y_km=y_km,
        storage=np.full(count, storage),
        compute=np.full(count, compute),
        client_limit=np.full(count, client_limit),
        net_id=pa.array(["net0"] * count),
    )


def tight_totals(spool: FloatArray, publishers: FloatArray) -> tuple[float, float]:
    """Return the (storage, compute) that all servers together need to be about as tight as 2021.

    Two copies of every spool fill 70 % of the storage; the compute load of eq. (1) of 2021,
    which does not depend on the plan in sum, fills 55 %.
    """
    storage = 2 * float(spool.sum()) / _STORAGE_SHARE_OF_TWO_COPIES
    return storage, float(spool @ publishers) / _COMPUTE_SHARE

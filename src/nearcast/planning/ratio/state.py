"""The arrays of the search for M2: the problem and the sums of a plan, as the kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray

__all__ = ["SearchState", "SmallArray"]

SmallArray = npt.NDArray[np.uint8]


class SearchState(NamedTuple):
    """Arrays that the kernels share; a named tuple is what numba takes as an argument.

    Clients and topics have numbers of their own here (see `Workspace`). Rows are memberships
    sorted by client; slots are the (topic, server) pairs in use: topic n's are the first
    ``slot_count[n]`` entries from ``topic_start[n]``, in no order.
    """

    # The problem.
    client_start: OffsetArray
    row_topic: IndexArray
    row_publishes: SmallArray
    row_subscribes: SmallArray
    row_weight: FloatArray
    topic_start: OffsetArray
    topic_client: IndexArray
    spool: FloatArray
    storage: FloatArray
    compute: FloatArray
    leg_weight: FloatArray
    client_x_km: FloatArray
    client_y_km: FloatArray
    server_x_km: FloatArray
    server_y_km: FloatArray
    ms_per_km: float
    leg_ms: FloatArray
    """[client, server], or shape (0, 0): computed from coordinates."""
    from_ms: FloatArray
    """Server to server delay [from, to]."""
    to_ms: FloatArray
    """The same, transposed."""
    round_trip_ms: float
    """2 d^C."""
    near: IndexArray
    """Nearest servers [client, rank]."""
    is_open: BoolArray
    """Servers that take part [server]: nobody moves to a closed one, and nobody away from it."""
    # The plan in force, if any: a spool (topic, server) that is not in it costs the price.
    kept_start: OffsetArray
    kept_server: IndexArray
    price_ms: float
    # The plan and its sums.
    homes: IndexArray
    slot_count: IndexArray
    slot_server: IndexArray
    slot_publishers: IndexArray
    slot_subscribers: IndexArray
    slot_weight: FloatArray
    storage_used: FloatArray
    compute_used: FloatArray
    deliveries: FloatArray
    between_ms: FloatArray
    local_share: FloatArray

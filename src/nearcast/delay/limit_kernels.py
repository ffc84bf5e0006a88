"""The numba kernel that adds up the limits of all publisher/subscriber pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt
from numba import njit

__all__ = ["add_direct_limits", "add_measured_limits"]

Array = npt.NDArray[Any]


@njit(cache=True)
def add_direct_limits(
    publisher: Array,
    first: Array,
    last: Array,
    own: Array,
    weight: Array,
    subscriber: Array,
    client_x_km: Array,
    client_y_km: Array,
    server_x_km: Array,
    server_y_km: Array,
    ms_per_km: float,
    cloud_ms: float,
    nearest_ms: Array,
    nearest_server: Array,
    is_complete: bool,
) -> tuple[float, float]:
    """Return the weighted sums of the straight way and of the way through the best one server.

    A publisher's subscribers are `subscriber[first:last]` but `own`. Its servers are tried from
    the nearest on, until no further one can be better: by the triangle inequality one at a leg
    of d costs 2 d minus the straight way at least. Of the servers that are not in the list,
    each costs the leg to the last one in it at least.
    """
    speed = route = 0.0
    tried = nearest_ms.shape[1] if is_complete else nearest_ms.shape[1] - 1
    for p in range(len(publisher)):
        sender = publisher[p]
        x_km, y_km = client_x_km[sender], client_y_km[sender]
        own_speed = own_route = 0.0
        for s in range(first[p], last[p]):
            if s == own[p]:
                continue
            other = subscriber[s]
            other_x, other_y = client_x_km[other], client_y_km[other]
            straight = ms_per_km * math.sqrt((x_km - other_x) ** 2 + (y_km - other_y) ** 2)
            best = nearest_ms[sender, 0] + 2 * cloud_ms + nearest_ms[other, 0]
            own_speed += min(straight, best)
            for rank in range(tried):
                leg = nearest_ms[sender, rank]
                if straight >= best or 2 * leg - straight >= best:
                    break
                at = nearest_server[sender, rank]
                dx, dy = other_x - server_x_km[at], other_y - server_y_km[at]
                best = min(best, leg + ms_per_km * math.sqrt(dx * dx + dy * dy))
            if not is_complete:
                best = min(best, max(nearest_ms[sender, tried], straight))
            own_route += best
        speed += weight[p] * own_speed
        route += weight[p] * own_route
    return speed, route


@njit(cache=True)
def add_measured_limits(
    publisher: Array,
    first: Array,
    last: Array,
    own: Array,
    weight: Array,
    subscriber: Array,
    legs_ms: Array,
    onward_ms: Array,
    nearest_ms: Array,
    cloud_ms: float,
) -> float:
    """Return the weighted sum of the best routes through any two servers.

    `legs_ms` is [client, server], `onward_ms` [client, server] the best way from a server to
    the client through any server.
    """
    route = 0.0
    for p in range(len(publisher)):
        sender, total = publisher[p], 0.0
        for s in range(first[p], last[p]):
            if s == own[p]:
                continue
            other = subscriber[s]
            best = nearest_ms[sender] + 2 * cloud_ms + nearest_ms[other]
            for server in range(legs_ms.shape[1]):
                best = min(best, legs_ms[sender, server] + onward_ms[other, server])
            total += best
        route += weight[p] * total
    return route

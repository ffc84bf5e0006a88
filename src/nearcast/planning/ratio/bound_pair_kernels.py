"""Compiled loops of the bound over pairs of members: messages, and the value they prove.

Every client has the same number of labels. The first `near` say "home at this server, processed
there", then there may be one for "processed at a home somewhere else", the others say "processed
in the cloud"; `server[client, label]` is the home, and the index one past the last server stands
for "somewhere else", which is 0 ms from everywhere.
A topic's members are paired with the `window` members after them; message [pair, 0] belongs to the
first and message [pair, 1] to the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray

__all__ = ["bound_value", "exchange_messages", "pair_offsets"]

_Float32s = npt.NDArray[np.float32]
_Floats = npt.NDArray[Any]
"""Single precision in the sweeps, double in the proof."""
_FAR = 1e30


def pair_offsets(topic_start: OffsetArray, window: int) -> OffsetArray:
    """Return where the pairs of each member row start; one entry more than rows."""
    rows = np.arange(topic_start[-1])
    end = np.repeat(topic_start[1:], np.diff(topic_start))
    partners = np.minimum(end - rows - 1, window)
    return np.concatenate([[0], np.cumsum(partners)]).astype(np.int64)


@njit(cache=True, fastmath=True, inline="always")
def _fill_far(
    cost: _Floats,
    forth: Any,
    back: Any,
    near: int,
    u: int,
    v: int,
    server: IndexArray,
    place: FloatArray,
    site: FloatArray,
    far_leg: FloatArray,
) -> None:
    """Set the costs of the two labels with an unknown home against the other's servers.

    A home l beyond the near ones has leg(u, l) >= far_leg, and leg(u, l) + d^S(l, l') >= leg(u, l')
    in the plane. A client's leg counts as often as its pairs do, so each pair may assume far_leg
    to be paid and add max(leg(u, l') - far_leg, 0) instead of 0. In the cloud label the same holds
    with the nearest leg, for what the client hears from local publishers.
    """
    for k in range(near):
        x, y = site[server[v, k], 0] - place[u, 0], site[server[v, k], 1] - place[u, 1]
        leg = np.sqrt(x * x + y * y)
        cost[near, k] = (forth + back) * max(leg - far_leg[u, 0], 0.0)
        cost[near + 1, k] = back * max(leg - far_leg[u, 1], 0.0)
        x, y = site[server[u, k], 0] - place[v, 0], site[server[u, k], 1] - place[v, 1]
        leg = np.sqrt(x * x + y * y)
        cost[k, near] = (forth + back) * max(leg - far_leg[v, 0], 0.0)
        cost[k, near + 1] = forth * max(leg - far_leg[v, 1], 0.0)


@njit(cache=True, fastmath=True, inline="always")
def _fill_costs(
    cost: _Floats,
    forth: Any,
    back: Any,
    locals_: int,
    u: int,
    v: int,
    server: IndexArray,
    between: _Floats,
    symmetric: bool,
) -> None:
    """Set the pair's server to server delay for all labels of its clients u and v."""
    labels = len(cost)
    for a in range(labels):
        here = server[u, a]
        forth_a = forth if a < locals_ else forth * 0
        for b in range(labels):
            cost[a, b] = between[here, server[v, b]]
        if symmetric:
            for b in range(labels):
                cost[a, b] *= forth_a + (back if b < locals_ else forth * 0)
        else:
            for b in range(labels):
                cost[a, b] *= forth_a
            for b in range(locals_):
                cost[a, b] += back * between[server[v, b], here]


@njit(cache=True, fastmath=True, inline="always")
def _least_sum(matrix: _Float32s, row: int, vector: _Float32s) -> Any:
    """Return the least of matrix[row, k] + vector[k]: a pure reduction, which is vectorised."""
    least = np.float32(_FAR)
    for k in range(len(vector)):
        least = min(least, matrix[row, k] + vector[k])
    return least


@njit(cache=True, fastmath=True)
def exchange_messages(
    potential: FloatArray,
    message: Any,
    pair_start: OffsetArray,
    member_client: IndexArray,
    publish_weight: FloatArray,
    subscribes: BoolArray,
    server: IndexArray,
    near: int,
    far_leg: FloatArray,
    place: FloatArray,
    site: FloatArray,
    between: _Float32s,
    symmetric: bool,
    backward: bool,
) -> None:
    """Let every pair share its cost with its two clients, one pair after the other.

    A pair takes both clients' potentials, adds its own cost and hands back as much as it can:
    half of the first client's min-marginals, all that is then left to the second, the rest to the
    first. What it keeps is 0 at least, so the sum of the clients' minima is a lower bound.
    """
    labels, rows = potential.shape[1], len(pair_start) - 1
    far = len(far_leg) > 0
    cost, cost_back = _matrices(labels)
    first, second, first_half, first_rest, second_gift = _vectors(labels)
    forth_before, back_before = np.float32(-1.0), np.float32(-1.0)
    for step in range(rows):
        row = rows - 1 - step if backward else step
        partners = pair_start[row + 1] - pair_start[row]
        u = member_client[row]
        for k in range(partners):
            offset = partners - 1 - k if backward else k
            pair, other = pair_start[row] + offset, row + 1 + offset
            forth = np.float32(publish_weight[row] * subscribes[other])
            back = np.float32(publish_weight[other] * subscribes[row])
            if forth + back <= 0:
                continue
            v = member_client[other]
            # Without a far label all clients have the same labels: equal weights, equal costs.
            if far or forth != forth_before or back != back_before:
                _fill_costs(cost, forth, back, near + far, u, v, server, between, symmetric)
                if far:
                    _fill_far(cost, forth, back, near, u, v, server, place, site, far_leg)
                for a in range(labels):
                    for b in range(labels):
                        cost_back[b, a] = cost[a, b]
                forth_before, back_before = forth, back
            for a in range(labels):
                first[a] = potential[u, a] - message[pair, 0, a]
                second[a] = potential[v, a] - message[pair, 1, a]
            for a in range(labels):
                least = _least_sum(cost, a, second)
                first_half[a] = np.float32(0.5) * (least + first[a])
                first_rest[a] = first[a] - first_half[a]
            for b in range(labels):
                second_gift[b] = -_least_sum(cost_back, b, first_rest)
            for a in range(labels):
                gift = _least_sum(cost, a, second_gift)
                potential[u, a] += gift - message[pair, 0, a]
                message[pair, 0, a] = gift
                gift = -second_gift[a]
                potential[v, a] += gift - message[pair, 1, a]
                message[pair, 1, a] = gift


@njit(cache=True)
def _matrices(size: int) -> tuple[_Float32s, _Float32s]:
    """Return two square matrices to work in."""
    return np.empty((size, size), dtype=np.float32), np.empty((size, size), dtype=np.float32)


@njit(cache=True)
def _vectors(size: int) -> tuple[_Float32s, _Float32s, _Float32s, _Float32s, _Float32s]:
    """Return five vectors to work in."""
    work = np.zeros((5, size), dtype=np.float32)
    return work[0], work[1], work[2], work[3], work[4]


@njit(cache=True)
def bound_value(
    potential: FloatArray,
    spool_share: FloatArray,
    message: Any,
    pair_start: OffsetArray,
    member_client: IndexArray,
    publish_weight: FloatArray,
    subscribes: BoolArray,
    server: IndexArray,
    near: int,
    far_leg: FloatArray,
    place: FloatArray,
    site: FloatArray,
    between: FloatArray,
    symmetric: bool,
) -> float:
    """Return the clients' minima plus what the pairs keep, from scratch in double precision.

    `potential` comes in with legs, cloud and compute prices and is used up. Without shares of
    spools storage has no price.
    """
    labels = potential.shape[1]
    far = len(far_leg) > 0
    cost = np.empty((labels, labels))
    kept = 0.0
    for row in range(len(pair_start) - 1):
        u = member_client[row]
        if len(spool_share) > 0:
            for a in range(near):
                potential[u, a] += spool_share[row, a]
        for pair in range(pair_start[row], pair_start[row + 1]):
            other = row + 1 + pair - pair_start[row]
            v = member_client[other]
            forth = publish_weight[row] * subscribes[other]
            back = publish_weight[other] * subscribes[row]
            _fill_costs(cost, forth, back, near + far, u, v, server, between, symmetric)
            if far:
                _fill_far(cost, forth, back, near, u, v, server, place, site, far_leg)
            least = _FAR
            for a in range(labels):
                potential[u, a] += message[pair, 0, a]
                potential[v, a] += message[pair, 1, a]
                for b in range(labels):
                    x = cost[a, b] - message[pair, 0, a] - message[pair, 1, b]
                    least = min(least, x)
            kept += least
    for client in range(len(potential)):
        kept += potential[client].min()
    return kept

"""A lower bound of the placement model without a solver: every pair takes its best road."""

from __future__ import annotations

import numpy as np

from nearcast.delay.placement import PlacementProblem, pair_weight
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import FloatArray, IndexArray

__all__ = ["bound_placement"]

_ENTRIES_PER_BLOCK = 4_000_000


def bound_placement(problem: PlacementProblem, objective: Objective) -> float:
    """Return a cost that no plan can beat, for any size.

    Storage is left out and every pair has brokers and a home of its own, eq. (11): the least
    over servers l, l' of ``leg + between + leg``, or through the cloud nearest leg + 2 d^C +
    nearest leg.
    """
    network, total = problem.network, 0.0
    step = max(_ENTRIES_PER_BLOCK // max(network.server_count, 1), 1)
    for left, right in problem.pairs():
        for begin in range(0, len(left), step):
            rows = slice(begin, begin + step)
            topic = problem.member_topic[left[rows]]
            sender = problem.member_client[left[rows]]
            receiver = problem.member_client[right[rows]]
            delay_ms = _least_road_ms(problem, sender, receiver) + problem.process_ms[topic]
            if objective is Objective.D2:
                delay_ms *= pair_weight(network, sender, receiver)
            if objective is Objective.D3:
                delay_ms = np.maximum(delay_ms - problem.permissible_ms[topic], 0.0)
            total += float(delay_ms.sum())
    return total


def _least_road_ms(
    problem: PlacementProblem, sender: IndexArray, receiver: IndexArray
) -> FloatArray:
    """Return the delay of the shortest road of each pair."""
    network = problem.network
    senders, sender_row = np.unique(sender, return_inverse=True)
    receivers, receiver_row = np.unique(receiver, return_inverse=True)
    up, down = network.leg_matrix_ms(senders), network.leg_matrix_ms(receivers)
    # Server by server, so that no table grows with servers x servers x clients.
    to_broker = down if network.has_geometry else _through_home_ms(network.server_server_ms, down)
    direct = np.full(len(sender), np.inf)
    for server in range(network.server_count):
        np.minimum(direct, up[sender_row, server] + to_broker[receiver_row, server], out=direct)
    cloud = up.min(axis=1)[sender_row] + 2 * network.cloud_ms + down.min(axis=1)[receiver_row]
    least: FloatArray = np.minimum(direct, cloud)
    return least


def _through_home_ms(between_ms: FloatArray, down: FloatArray) -> FloatArray:
    """Return the least delay from a broker's server to a receiver through any home.

    With measured delays a detour over another server may be the shorter road.
    """
    least = np.full_like(down, np.inf)
    for home in range(between_ms.shape[1]):
        np.minimum(least, between_ms[:, home] + down[:, home, None], out=least)
    return least

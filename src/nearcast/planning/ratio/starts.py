"""A plan by rule that the search for M2 starts from: topics kept together."""

from __future__ import annotations

import numpy as np

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import IndexArray

__all__ = ["centre_homes"]

_CENTRE_CANDIDATES = 16


def centre_homes(problem: RatioProblem, otherwise: IndexArray) -> IndexArray:
    """Return homes that keep topics together: the server nearest to a topic's centre with room.

    Topics with the largest load choose first; where no near server has room left, the nearest
    takes the topic. A client of several topics goes with the first that chose; one without
    topics keeps its home in `otherwise`.
    """
    topics = problem.topic_count
    publishers = np.bincount(problem.member_topic, problem.publishes, topics)
    load = problem.spool * publishers
    candidates = _servers_by_centre(problem)
    storage_left, compute_left = problem.storage.copy(), problem.compute.copy()
    order = np.argsort(-load, kind="stable")
    chosen = np.empty(topics, dtype=np.int32)
    for n in order.tolist():
        near = candidates[n]
        fits = (storage_left[near] >= problem.spool[n]) & (compute_left[near] >= load[n])
        server = near[int(np.argmax(fits))]
        chosen[n] = server
        storage_left[server] -= problem.spool[n]
        compute_left[server] -= load[n]
    homes = otherwise.copy()
    rank = np.empty(topics, dtype=np.int64)
    rank[order] = np.arange(topics)
    # Written last to first in the order of choosing, so that the first choice stays.
    rows = np.argsort(-rank[problem.member_topic], kind="stable")
    homes[problem.member_client[rows]] = chosen[problem.member_topic[rows]]
    return homes


def _servers_by_centre(problem: RatioProblem) -> IndexArray:
    """Return the servers [topic, rank] nearest to the members as a whole."""
    from nearcast.geo.distance import nearest

    network, topics = problem.network, problem.topic_count
    count = min(_CENTRE_CANDIDATES, network.server_count)
    if network.client_server_ms.size:
        sums = np.zeros((topics, network.server_count))
        np.add.at(sums, problem.member_topic, network.client_server_ms[problem.member_client])
        return np.argsort(sums, axis=1, kind="stable")[:, :count].astype(np.int32)
    size = np.maximum(np.bincount(problem.member_topic, minlength=topics), 1)
    x_km, y_km = (
        np.bincount(problem.member_topic, place[problem.member_client], topics) / size
        for place in (network.client_x_km, network.client_y_km)
    )
    _, index = nearest(x_km, y_km, network.server_x_km, network.server_y_km, count)
    return index

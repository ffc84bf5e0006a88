"""Placement plans from homes alone, for methods that know nothing of brokers."""

from __future__ import annotations

import numpy as np

from nearcast.delay.placement import PlacementProblem, pair_delay_ms, pair_weight
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray

__all__ = ["best_senders", "complete_placement"]


def complete_placement(
    problem: PlacementProblem, homes: IndexArray, objective: Objective
) -> tuple[IndexArray, BoolArray]:
    """Return (publish, brokers): publishers send to their home, brokers where they save most.

    A broker at (topic, server) saves what the topic's publishers at home there pay less than
    through the cloud. On each server the brokers are placed by saving per unit of storage,
    largest first, as long as they fit; those that save nothing are left out.
    """
    publish = np.where(problem.publishes, homes[problem.member_client], -1).astype(np.int32)
    saving = _savings_ms(problem, homes, publish, objective)
    brokers = np.zeros(saving.shape, dtype=np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(saving > 0, saving / problem.spool[:, None], 0.0)
    for server in range(saving.shape[1]):
        left = problem.storage[server] * (1 + 1e-9)
        for topic in np.argsort(-density[:, server], kind="stable"):
            if density[topic, server] > 0 and problem.spool[topic] <= left:
                brokers[topic, server] = True
                left -= problem.spool[topic]
    return publish, brokers


def best_senders(
    problem: PlacementProblem, homes: IndexArray, brokers: BoolArray, objective: Objective
) -> IndexArray:
    """Return the best server [member row] to publish to, given homes and brokers; -1 elsewhere."""
    rows, servers = len(problem.member_topic), problem.network.server_count
    cost_ms = np.zeros((rows, servers))
    for left, right in problem.pairs():
        for server in range(servers):
            at = np.full(rows, server, dtype=np.int32)
            delay = pair_delay_ms(problem, homes, at, brokers, left, right)
            if objective is Objective.D3:
                limit_ms = problem.permissible_ms[problem.member_topic[left]]
                delay = np.maximum(delay - limit_ms, 0.0)
            if objective is Objective.D2:
                sender, receiver = problem.member_client[left], problem.member_client[right]
                delay = delay * pair_weight(problem.network, sender, receiver)
            cost_ms[:, server] += np.bincount(left, delay, rows)
    return np.where(problem.publishes, np.argmin(cost_ms, axis=1), -1).astype(np.int32)


def _savings_ms(
    problem: PlacementProblem, homes: IndexArray, publish: IndexArray, objective: Objective
) -> FloatArray:
    """Return what a broker would save [topic, server]."""
    network = problem.network
    shape = (problem.topic_count, network.server_count)
    saving = np.zeros(shape[0] * shape[1])
    for left, right in problem.pairs():
        topic, at = problem.member_topic[left], publish[left]
        sender, receiver = problem.member_client[left], problem.member_client[right]
        home = homes[receiver]
        legs = network.legs_ms(sender, at) + network.legs_ms(receiver, home)
        edge = legs + network.server_server_ms[at, home] + problem.process_ms[topic]
        cloud = legs + 2 * network.cloud_ms + problem.process_ms[topic]
        if objective is Objective.D3:
            limit = problem.permissible_ms[topic]
            edge, cloud = np.maximum(edge - limit, 0.0), np.maximum(cloud - limit, 0.0)
        saved = cloud - edge
        if objective is Objective.D2:
            saved *= pair_weight(network, sender, receiver)
        key = topic.astype(np.int64) * shape[1] + at
        saving += np.bincount(key, saved, len(saving))
    return saving.reshape(shape)

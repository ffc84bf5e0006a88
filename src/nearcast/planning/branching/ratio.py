"""Exact plans for small problems of M2, the delegation-ratio model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import IndexArray, OffsetArray
from nearcast.planning.branching.branch import check_size, solve_homes
from nearcast.planning.exact_result import ExactResult
from nearcast.planning.request import Progress

__all__ = ["solve_ratio"]


def solve_ratio(
    problem: RatioProblem,
    time_limit_s: float | None = None,
    upper_homes: IndexArray | None = None,
    lower_bound: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> ExactResult:
    """Return the homes with the least Y, eq. (7), or the best in time with a bound.

    Parameters
    ----------
    upper_homes
        A good plan to start from; the better it is, the less is looked at.
    lower_bound
        A bound known from elsewhere.
    """
    from nearcast.planning.branching.branch_kernels import BranchTables

    network, topics = problem.network, problem.topic_count
    sending = np.bincount(problem.member_topic, problem.publish_weight > 0, topics)
    check_size(float(sending @ np.bincount(problem.member_topic, problem.subscribes, topics)))
    left, right = _pairs(problem)
    legs_ms, count = network.leg_matrix_ms(), max(problem.deliveries, 1)
    sent = np.flatnonzero(problem.publishes)
    sent = sent[np.argsort(problem.member_client[sent], kind="stable")]
    clients = np.arange(network.client_count + 1)
    tables = BranchTables(
        leg_cost=problem.leg_weight[:, None] * legs_ms / count,
        cloud_price=np.zeros(network.client_count),
        excess_price=np.zeros(network.client_count),
        client_limit=np.full(network.server_count, np.inf),
        storage=problem.storage,
        compute=problem.compute,
        spool=problem.spool,
        sent_start=np.searchsorted(problem.member_client[sent], clients),
        sent_topic=problem.member_topic[sent],
        publisher=problem.member_client[left],
        subscriber=problem.member_client[right],
        weight=problem.publish_weight[left] / count,
        between_ms=network.server_server_ms,
        cloud_ms=2.0 * network.cloud_ms,
    )
    start = np.argmin(legs_ms, axis=1) if upper_homes is None else upper_homes
    return solve_homes(tables, start, time_limit_s, lower_bound, on_progress)


def _pairs(problem: RatioProblem) -> tuple[OffsetArray, OffsetArray]:
    """Return the (publisher, subscriber) member rows of all deliveries."""
    left: list[OffsetArray] = []
    right: list[OffsetArray] = []
    for begin, end in zip(problem.topic_start[:-1], problem.topic_start[1:], strict=True):
        publishers = begin + np.flatnonzero(problem.publish_weight[begin:end] > 0)
        subscribers = begin + np.flatnonzero(problem.subscribes[begin:end])
        a, b = np.repeat(publishers, len(subscribers)), np.tile(subscribers, len(publishers))
        left.append(a[a != b])
        right.append(b[a != b])
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *left]), np.concatenate([none, *right])

"""Exact plans for small problems of M1, the connection-limited model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearcast.delay.connections import ConnectionsProblem
from nearcast.domain.scenario import IndexArray
from nearcast.planning.branching.branch import solve_homes
from nearcast.planning.exact_result import ExactResult
from nearcast.planning.request import Progress

__all__ = ["solve_connections"]


def solve_connections(
    problem: ConnectionsProblem,
    time_limit_s: float | None = None,
    upper_homes: IndexArray | None = None,
    lower_bound: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> ExactResult:
    """Return the homes with the least Y, eq. (9), or the best in time with a bound.

    Parameters
    ----------
    upper_homes
        A good plan to start from; the better it is, the less is looked at.
    lower_bound
        A bound known from elsewhere.
    """
    from nearcast.planning.branching.branch_kernels import BranchTables

    network, weight = problem.network, problem.client_weight
    legs_ms = network.leg_matrix_ms()
    sent = np.flatnonzero(problem.publishes)
    sent = sent[np.argsort(problem.member_client[sent], kind="stable")]
    clients = np.arange(network.client_count + 1)
    nobody = np.empty(0, dtype=np.int32)
    tables = BranchTables(
        leg_cost=weight[:, None] * legs_ms,
        cloud_price=weight * network.cloud_ms,
        excess_price=weight * problem.beta_ms,
        client_limit=problem.client_limit,
        storage=problem.storage,
        compute=np.full(network.server_count, np.inf),
        spool=problem.spool,
        sent_start=np.searchsorted(problem.member_client[sent], clients),
        sent_topic=problem.member_topic[sent],
        publisher=nobody,
        subscriber=nobody,
        weight=np.empty(0),
        between_ms=network.server_server_ms,
        cloud_ms=2.0 * network.cloud_ms,
    )
    start = np.argmin(legs_ms, axis=1) if upper_homes is None else upper_homes
    return solve_homes(tables, start, time_limit_s, lower_bound, on_progress)

"""A lower bound of Y under M1 that knows shared storage and the limit of clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast.delay.connections import ConnectionsProblem
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.planning.connections.bound_kernels import Labels

__all__ = ["ConnectionsBound", "ConnectionsBoundParams", "bound_connections"]

_FIRST_STEP, _LAST_STEP = 0.02, 0.002
"""Steps of the prices, in detours of a client of mean weight past all its near servers."""
_CLOSE = 1e-4
"""A bound this near to the known plan (as a share) needs no further work."""
_ROUNDING = 1e-12
"""Taken off the bound (as a share), so that rounding cannot lift it above an optimum."""


@dataclass(frozen=True, slots=True)
class ConnectionsBoundParams:
    """How much work to spend."""

    sweeps: int = 150
    """Rounds of better prices; 0: only the nearest legs."""
    time_limit_s: float | None = None
    near_servers: int = 24
    """Servers of a client that are priced; all others count as one free label."""


@dataclass(frozen=True, slots=True)
class ConnectionsBound:
    """A proven bound."""

    y_ms: float
    """No assignment has a smaller Y."""
    nearest_ms: float
    """The bound of the nearest legs alone, exact when no limit binds."""
    sweeps: int
    seconds: float


def bound_connections(
    problem: ConnectionsProblem,
    parameters: ConnectionsBoundParams | None = None,
    upper_cost: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ConnectionsBound:
    """Return a lower bound of the Y of every assignment; stops early at `upper_cost`.

    Every client takes a label: "home at l, processed there" costs its leg, "home at l, cloud"
    its leg and d^C. Toss one coin per server, "local" with chance 1 - r_l: a plan becomes a
    mixture of labellings whose mean cost is the plan's Y (but for the excess of clients), and
    whose mean storage use is (1 - r_l) u_l <= A_l. So with prices lambda_l >= 0 per unit of
    storage, Y is at least the mean of ``cost + sum lambda_l (use_l - A_l)``, hence at least its
    minimum over labellings. The price lambda_l * spool_n of a topic at a server is paid once;
    splitting it over the topic's publishers in any way (not negative, adding up to at most the
    price) charges no labelling more. Then clients are independent, and the minimum is a sum.

    Client limit: n clients on a server with limit B cost beta W (n - B) if n > B, and W is at
    least the sum w of the floor(B) + 1 smallest weights; so that cost is at least mu (n - B) for
    every price 0 <= mu <= beta w, which is a price per client.
    """
    parameters = parameters or ConnectionsBoundParams()
    watch = Stopwatch(parameters.time_limit_s)
    # An unlimited storage cannot be priced; no server can ever use more than all spools.
    problem = replace(problem, storage=np.minimum(problem.storage, problem.spool.sum()))
    weight, network = problem.client_weight, problem.network
    if not weight.any():
        return ConnectionsBound(0.0, 0.0, 0, watch.seconds())
    legs_ms, servers = network.nearest_servers(parameters.near_servers + 1)
    nearest_ms = best = float(weight @ legs_ms[:, 0]) * (1 - _ROUNDING)
    enough = np.inf if upper_cost is None else upper_cost * (1 - _CLOSE)
    rows = np.flatnonzero(problem.publishes & (problem.spool > 0)[problem.member_topic])
    if best >= enough or not parameters.sweeps or not len(rows):
        return ConnectionsBound(best, nearest_ms, 0, watch.seconds())
    from nearcast.planning.connections import bound_kernels as kernels

    labels = _labels_of(problem, rows, legs_ms, servers, parameters.near_servers)
    prices = kernels.Prices(
        storage=np.zeros(network.server_count),
        client=np.zeros(network.server_count),
        client_most=_largest_client_price(problem),
        split=np.zeros((len(rows), labels.server.shape[1])),
    )
    shares = kernels.Shares(np.empty(labels.leg_ms.shape), np.empty(labels.leg_ms.shape))
    detour_ms = float((legs_ms[:, -1] - legs_ms[:, 0]).mean()) or network.cloud_ms or 1.0
    unit, spool = float(weight.mean()) * detour_ms, float(labels.block_spool.mean())
    sweep = 0
    while sweep < parameters.sweeps and best < enough and not watch.expired():
        step_ms = unit * _FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** (sweep / parameters.sweeps)
        cheapest_ms = kernels.label_clients(labels, prices, shares, step_ms)
        proven_ms = kernels.proven_ms(labels, prices, cheapest_ms)
        best = max(best, proven_ms - _ROUNDING * cheapest_ms)
        kernels.improve_prices(labels, prices, shares, step_ms, spool)
        sweep += 1
        if on_progress is not None:
            on_progress(Progress("bound", sweep / parameters.sweeps, upper_cost, best))
    return ConnectionsBound(best, nearest_ms, sweep, watch.seconds())


def _largest_client_price(problem: ConnectionsProblem) -> FloatArray:
    """Return the largest valid mu of each server; 0 where the limit cannot be exceeded."""
    smallest = np.cumsum(np.sort(problem.client_weight))
    limit = problem.client_limit
    can_exceed = limit < len(smallest)
    first_excess = np.where(can_exceed, np.floor(limit), 0).astype(np.int64)
    return np.where(can_exceed, problem.beta_ms * smallest[first_excess], 0.0)


def _labels_of(
    problem: ConnectionsProblem,
    rows: OffsetArray,
    legs_ms: FloatArray,
    servers: IndexArray,
    near: int,
) -> Labels:
    """Return the labels and which of them share a (topic, server)."""
    from nearcast.planning.connections.bound_kernels import Labels

    weight, clients = problem.client_weight, problem.network.client_count
    rows = rows[np.argsort(problem.member_client[rows], kind="stable")]
    client, topic = problem.member_client[rows], problem.member_topic[rows]
    server = np.ascontiguousarray(servers[:, :near])
    key = topic.astype(np.int64)[:, None] * problem.network.server_count + server[client]
    used, block = np.unique(key, return_inverse=True)
    has_outside = legs_ms.shape[1] > near
    return Labels(
        server=server,
        leg_ms=weight[:, None] * legs_ms[:, :near],
        outside_ms=weight * legs_ms[:, near] if has_outside else np.full(clients, np.inf),
        cloud_ms=weight * problem.network.cloud_ms,
        pin_start=np.searchsorted(client, np.arange(clients + 1)),
        pin_client=client,
        block_start=np.concatenate([[0], np.cumsum(np.bincount(block.ravel()))]),
        entry=np.argsort(block, axis=None, kind="stable"),
        block_server=(used % problem.network.server_count).astype(np.int32),
        block_spool=problem.spool[used // problem.network.server_count],
        storage=problem.storage,
        client_limit=problem.client_limit,
    )

"""Search of homes under M1: annealing from the nearest servers, then descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcast.delay.connections import ConnectionsProblem, evaluate_connections
from nearcast.domain.scenario import IndexArray
from nearcast.errors import ConfigError
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.planning.connections.search_kernels import Field

__all__ = ["ConnectionsSearch", "SearchParameters", "search_connections"]

_NEAR_SERVERS = 8
_STEPS_PER_CHUNK = 100_000
_DEFAULT_STEPS_PER_CLIENT = 1_000
_HOT, _COLD = 0.8, 0.024
"""Temperatures, in detours of a client of mean weight; see `_detour_ms`."""
_EASE=0.1
_EASE_END=.8
_DESCENT_SHARE = 0.05
"""Part of the time that is kept for the descent."""
_DESCENT_PASSES = 20


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """How long to search; without either limit 1,000 steps a client."""

    seed: int = 0
    iterations: int | None = None
    """Proposals of the annealing; with this and no time limit the result is reproducible."""
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"iterations must be 1 or more, not {self.iterations}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise ConfigError(f"the time limit must be positive, not {self.time_limit_s}")


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsSearch:
    """What the search found."""

    homes: IndexArray
    cost: float
    """Y of these homes, never above that of the starts."""
    iterations: int
    """Moves proposed by the annealing."""
    moves: int
    """Moves made, by the descent too."""
    seconds: float


def search_connections(
    problem: ConnectionsProblem,
    parameters: SearchParameters,
    start_homes: IndexArray | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ConnectionsSearch:
    """Return the best homes found; starts from `start_homes`, or from the nearest servers."""
    watch = Stopwatch(parameters.time_limit_s)
    field = _field_of(problem)
    best = field.near[:, 0].copy()
    best_cost = evaluate_connections(problem, best).y_ms
    if start_homes is not None:
        start = np.ascontiguousarray(start_homes, dtype=np.int32)
        start_cost = evaluate_connections(problem, start).y_ms
        if start_cost < best_cost:
            best, best_cost = start, start_cost
    homes, steps, moves = _anneal_and_descend(field, best, parameters, watch, on_progress)
    cost = evaluate_connections(problem, homes).y_ms
    if cost < best_cost:
        best, best_cost = homes, cost
    return ConnectionsSearch(best, best_cost, steps, moves, watch.seconds())


def _anneal_and_descend(
    field: Field,
    homes: IndexArray,
    parameters: SearchParameters,
    watch: Stopwatch,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[IndexArray, int, int]:
    """Return (homes, proposals, moves made)."""
    from nearcast.planning.connections import search_kernels as kernels

    load = kernels.load_of(field, homes)
    rng = np.array([parameters.seed], dtype=np.uint64)
    unit = _detour_ms(field)
    if unit == 0.0:
        return homes, 0, 0
    limit = parameters.iterations
    if limit is None and parameters.time_limit_s is None:
        limit = _DEFAULT_STEPS_PER_CLIENT * len(homes)
    steps = moves = 0
    chunk = 1_000
    fraction = 0.0
    while fraction < 1.0:
        size = chunk if limit is None else min(chunk, limit - steps)
        hot = unit * _HOT * (_COLD / _HOT) ** fraction
        begin = watch.seconds()
        planned = _fraction(steps + size, limit, watch)
        cold = unit * _HOT * (_COLD / _HOT) ** min(planned, 1.0)
        eased = field._replace(cloud_ms=field.cloud_ms * _EASE ** max(1.0 - fraction / _EASE_END, 0.0))
        moves += kernels.anneal(eased, load, hot, cold, size, rng)
        steps += size
        fraction = _fraction(steps, limit, watch)
        if watch.seconds() - begin < 0.02:
            chunk = min(2 * chunk, _STEPS_PER_CHUNK)
        if on_progress is not None:
            on_progress(Progress("search", min(fraction, 1.0), kernels.sum_ms(field, load)))
    for _ in range(_DESCENT_PASSES):
        made = kernels.descend(field, load, 1e-12 * unit)
        moves += made
        if not made or watch.expired():
            break
    return load.homes, steps, moves


def _detour_ms(field: Field) -> float:
    """Return what it costs Y when one client takes the last of its near servers, not the first."""
    if not field.near.size or field.near.shape[1] == 1:
        return 0.0
    detour_ms = field.near_ms[:, -1] - field.near_ms[:, 0]
    # Servers at one place differ by what they delegate only.
    return float(field.weight.mean()) * (float(detour_ms.mean()) or field.cloud_ms / 50)


def _fraction(steps: int, limit: int | None, watch: Stopwatch) -> float:
    """Return how much of the annealing is done: by steps or by time, whatever is further."""
    by_steps = 0.0 if limit is None else steps / limit
    if watch.limit_s is None:
        return by_steps
    return max(by_steps, watch.seconds() / (watch.limit_s * (1.0 - _DESCENT_SHARE)))


def _field_of(problem: ConnectionsProblem) -> Field:
    """Return the problem in the form that the loops read."""
    from nearcast.planning.connections.search_kernels import Field

    network = problem.network
    near_ms, near = network.nearest_servers(_NEAR_SERVERS)
    rows = np.flatnonzero(problem.publishes)
    topics = np.arange(problem.topic_count + 1)
    client = problem.member_client[rows]
    order = np.argsort(client, kind="stable")
    clients = np.arange(network.client_count + 1)
    return Field(
        leg_ms=network.client_server_ms,
        client_km=np.column_stack([network.client_x_km, network.client_y_km]),
        server_km=np.column_stack([network.server_x_km, network.server_y_km]),
        ms_per_km=float(network.ms_per_km),
        cloud_ms=float(network.cloud_ms),
        beta_ms=float(problem.beta_ms),
        weight=problem.client_weight,
        spool=problem.spool,
        storage=problem.storage,
        client_limit=problem.client_limit,
        publisher_start=np.searchsorted(problem.member_topic[rows], topics),
        publisher=client,
        target_start=np.searchsorted(client[order], clients),
        target=problem.member_topic[rows][order],
        client_spool=np.bincount(
            client, problem.spool[problem.member_topic[rows]], network.client_count
        ),
        near=near,
        near_ms=near_ms,
    )

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
    from nearcast.planning.connections.search_kernels import Field, Load

__all__ = ["ConnectionsSearch", "ConnectionsSearchParams", "search_connections"]

_NEAR_SERVERS = 8
_FIRST_CHUNK, _CHUNK_S, _CHUNKS = 500, 0.01, 200
"""Steps between looks at the clock: doubled until they take this long; or 1/200 of all."""
_DEFAULT_STEPS_PER_CLIENT = 1_000
_HOT, _COLD = 0.8, 0.05
"""Temperatures, in detours of a client of mean weight; see `_detour_ms`."""
_HOTTER = 4.0
"""First temperature of every second round, in which the cloud delay is not eased."""
_EASED, _EASED_UNTIL = 0.03, 0.9
"""The cloud delay grows from this share of it to all of it, until this part of a round.

Once servers are full, hardly any move avoids a passing overload; while that is cheap, topics
gather and spread on the map (ratio 1.28: Y 0.26 instead of 0.37 after two million steps).
"""
_SMALL = 200
"""With half as many clients or fewer the search has several rounds, all but the first from
random homes, as basins are few and deep then."""
_MOST_ROUNDS = 10
_DESCENT_SHARE = 0.05
"""Part of the time that is kept for the descent."""

_Report = Callable[[float, float], None]
"""Takes the share that is done and the best cost."""


@dataclass(frozen=True, slots=True)
class ConnectionsSearchParams:
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
    parameters: ConnectionsSearchParams,
    start_homes: IndexArray | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ConnectionsSearch:
    """Return the best homes found; starts from `start_homes` or, if better, the nearest servers."""
    budget = _Budget(parameters, problem.network.client_count)
    field = _field_of(problem)
    best = field.near[:, 0].copy()
    best_cost = evaluate_connections(problem, best).y_ms
    if start_homes is not None:
        start = np.ascontiguousarray(start_homes, dtype=np.int32)
        start_cost = evaluate_connections(problem, start).y_ms
        if start_cost < best_cost:
            best, best_cost = start, start_cost

    def report(fraction: float, cost: float) -> None:
        if on_progress is not None:
            on_progress(Progress("search", fraction, min(cost, best_cost)))

    homes, moves = _search(field, best, budget, parameters.seed, report)
    cost = evaluate_connections(problem, homes).y_ms
    if cost < best_cost:
        best, best_cost = homes, cost
    return ConnectionsSearch(best, best_cost, budget.steps, moves, budget.watch.seconds())


def _search(
    field: Field, homes: IndexArray, budget: _Budget, seed: int, report: _Report
) -> tuple[IndexArray, int]:
    """Return the best homes of all rounds of annealing and descent, and the moves made."""
    from nearcast.planning.connections import search_kernels as kernels

    unit = _detour_ms(field)
    if unit == 0.0:
        return homes, 0
    rounds = min(max(_SMALL // len(homes), 1), _MOST_ROUNDS)
    rng, starts = np.array([seed], dtype=np.uint64), np.random.default_rng(seed)
    load = kernels.load_of(field, homes)
    best, best_ms, moves, is_stopped = homes, np.inf, 0, False
    for done in range(rounds):
        hotter = done % 2 == 1
        hot = _HOTTER if hotter else _HOT
        if done:
            anywhere = starts.integers(0, len(field.storage), len(homes), dtype=np.int32)
            load = kernels.load_of(field, anywhere)
        try:
            while (part := budget.spent() * rounds - done) < 1.0:
                ease = 1.0 if hotter else _EASED ** max(1.0 - part / _EASED_UNTIL, 0.0)
                eased = field._replace(cloud_ms=field.cloud_ms * ease)
                temperature_ms = unit * hot * (_COLD / hot) ** part
                moves += kernels.anneal(eased, load, temperature_ms, budget.next_chunk(), rng)
                report(budget.spent(), min(best_ms, kernels.sum_ms(field, load)))
        except KeyboardInterrupt:
            # Ctrl-C ends the search; the best plan so far is kept.
            is_stopped = True
        moves += _descend(field, load, 1e-12 * unit, budget)
        if (cost := kernels.sum_ms(field, load)) < best_ms:
            best, best_ms = load.homes.copy(), cost
        if is_stopped:
            return best, moves
    report(1.0, best_ms)
    return best, moves


def _descend(field: Field, load: Load, least_ms: float, budget: _Budget) -> int:
    """Make improving moves until there are none or the time is over; return how many."""
    from nearcast.planning.connections import search_kernels as kernels

    moves = 0
    while made := kernels.descend(field, load, least_ms):
        moves += made
        if budget.watch.expired():
            break
    return moves


class _Budget:
    """Steps and time of a search, spent chunk by chunk."""

    def __init__(self, parameters: ConnectionsSearchParams, clients: int) -> None:
        self.watch = Stopwatch(parameters.time_limit_s)
        self.steps = 0
        self._limit = parameters.iterations
        if self._limit is None and parameters.time_limit_s is None:
            self._limit = _DEFAULT_STEPS_PER_CLIENT * clients
        self._chunk = _FIRST_CHUNK
        self._asked_s = self.watch.seconds()

    def spent(self) -> float:
        """Return the share of the annealing that is done: by steps or time, the larger."""
        by_steps = 0.0 if self._limit is None else self.steps / self._limit
        if self.watch.limit_s is None:
            return by_steps
        by_time = self.watch.seconds() / (self.watch.limit_s * (1.0 - _DESCENT_SHARE))
        return min(max(by_steps, by_time), 1.0)

    def next_chunk(self) -> int:
        """Return how many steps to do next; depends on the clock only where there is a limit."""
        if self.watch.limit_s is None and self._limit is not None:
            self._chunk = max(self._limit // _CHUNKS, 1)
        elif self.watch.seconds() - self._asked_s < _CHUNK_S:
            self._chunk *= 2
        self._asked_s = self.watch.seconds()
        size = self._chunk if self._limit is None else min(self._chunk, self._limit - self.steps)
        self.steps += size
        return size


def _detour_ms(field: Field) -> float:
    """Return what it costs Y when one client takes the last of its near servers, not the first."""
    if not field.near.size or field.near.shape[1] == 1:
        return 0.0
    detour_ms = field.near_ms[:, -1] - field.near_ms[:, 0]
    # Servers at one place differ by what they delegate only.
    return float(field.weight.mean()) * (float(detour_ms.mean()) or field.cloud_ms / 50)


def _field_of(problem: ConnectionsProblem) -> Field:
    """Return the problem in the form that the loops read."""
    from nearcast.planning.connections.search_kernels import Field

    network = problem.network
    near_ms, near = network.nearest_servers(_NEAR_SERVERS)
    rows = np.flatnonzero(problem.publishes)
    topics = np.arange(problem.topic_count + 1)
    client = problem.member_client[rows]
    spool = problem.spool[problem.member_topic[rows]]
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
        client_spool=np.bincount(client, spool, network.client_count).astype(np.float64),
        near=near,
        near_ms=near_ms,
    )

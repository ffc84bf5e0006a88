"""The search for a placement plan: annealing over homes and brokers, with restarts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from nearcast.delay.placement import PlacementProblem
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import BoolArray, IndexArray
from nearcast.planning.placement.tables import (
    PlacementState,
    PlacementTables,
    empty_state,
    placement_tables,
)
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["PlacementSearch", "PlacementSearchResult", "search_placement"]

_HOT, _COLD = 0.5, 0.01
"""Temperatures, in units of the mean rise of a random change of home."""
_DEFAULT_ITERATIONS = 1_000_000
_PROPOSALS_PER_CHOICE = 80
"""Length of a run: proposals per home and per possible broker."""
_DESCENT_ROUNDS = 3
_CHUNK = 5_000
"""Proposals between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class PlacementSearch:
    """How long to search; if iterations end it the same seed gives the same plan."""

    seed: int = 0
    iterations: int | None = None
    time_limit_s: float | None = None
    """With both, what comes first ends the search; without both a million iterations."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementSearchResult:
    """The best plan found."""

    homes: IndexArray
    publish: IndexArray
    """Server [member row] a publisher sends to, -1 elsewhere."""
    brokers: BoolArray
    """z [topic, server]."""
    cost: float
    iterations: int
    moves: int
    """Proposals accepted."""
    seconds: float


def search_placement(
    problem: PlacementProblem,
    objective: Objective,
    params: PlacementSearch,
    start: tuple[IndexArray, BoolArray] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    tie_ms: float = 0.0,
) -> PlacementSearchResult:
    """Return the best plan of several annealing runs.

    A run proposes to move a home, to open, close, move or swap brokers (closing others where
    storage demands it); every publisher always sends to what is then its best server. The
    first run begins at `start` (homes, brokers), the others where nothing is placed. The cost is
    that of `placement_tables`, with its `tie_ms`.
    """
    tables = placement_tables(problem, objective, tie_ms)
    search = _Search(tables, params, on_progress)
    plans = [start] if start is not None else []
    # Ctrl-C ends the search; the best plan so far is kept.
    with suppress(KeyboardInterrupt):
        search.run(plans)
    publish = np.full(len(problem.member_topic), -1, dtype=np.int32)
    from nearcast.planning.placement.search_kernels import rebuild, senders

    state = empty_state(tables, search.best_homes, search.best_brokers)
    cost = float(rebuild(tables, state))
    senders(tables, state, publish)
    return PlacementSearchResult(
        state.homes,
        publish,
        state.is_broker,
        cost,
        search.iterations,
        search.moves,
        search.watch.seconds(),
    )


class _Search:
    """The best plan so far, and how much of the search is done."""

    def __init__(
        self,
        tables: PlacementTables,
        params: PlacementSearch,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.tables = tables
        self.rng = np.random.default_rng(params.seed)
        self.on_progress = on_progress
        self.watch = Stopwatch(params.time_limit_s)
        endless = np.inf if params.time_limit_s is not None else _DEFAULT_ITERATIONS
        self.budget = params.iterations or endless
        self.iterations = self.moves = 0
        self.best_cost = np.inf
        self.best_homes = tables.by_leg[:, 0].copy()
        self.best_brokers = np.zeros((len(tables.spool), tables.leg_ms.shape[1]), dtype=np.bool_)

    def run(self, plans: list[tuple[IndexArray, BoolArray]]) -> None:
        """Anneal until the budget is used, from each plan once and then from nothing placed."""
        choices = len(self.best_homes) + self.best_brokers.size
        length = _PROPOSALS_PER_CHOICE * choices
        nothing = (self.best_homes.copy(), self.best_brokers.copy())
        while not self._done():
            homes, brokers = plans.pop(0) if plans else nothing
            self._anneal(empty_state(self.tables, homes, brokers), length)

    def _done(self) -> bool:
        expired = self.iterations > 0 and self.watch.expired()
        return expired or self.iterations >= self.budget

    def _left(self) -> float:
        """Return the proposals left; under a time limit by the rate so far."""
        left = self.budget - self.iterations
        if self.watch.limit_s is None:
            return left
        rate = (self.iterations + 1) / max(self.watch.seconds(), 1e-6)
        return min(left, max(self.watch.left_s(), 0.0) * rate)

    def _anneal(self, state: PlacementState, length: int) -> None:
        """Make one run of `length` proposals, or of all that are left if those are fewer."""
        from nearcast.planning.placement import anneal_kernels, search_kernels

        tables = self.tables
        search_kernels.rebuild(tables, state)
        self.moves += anneal_kernels.descend(tables, state, _DESCENT_ROUNDS)
        cost = float(search_kernels.rebuild(tables, state))
        self._keep(state, cost)
        scale = anneal_kernels.typical_rise(tables, state, self.rng, 300)
        homes, brokers, best, done = state.homes.copy(), state.is_broker.copy(), cost, 0.0
        while done < 1.0 and not (self._done() and self.iterations):
            left = (1.0 - done) * length
            if self.iterations:
                left = min(left, self._left())
            steps = max(int(min(_CHUNK, left)), 1)
            until = min(1.0, done + (1.0 - done) * steps / max(left, 1.0))
            cost, best, moves = anneal_kernels.anneal(
                tables,
                state,
                self.rng,
                cost,
                max(_HOT * scale, 1e-12),
                max(_COLD * scale, 1e-12),
                (done, until),
                steps,
                homes,
                brokers,
                best,
            )
            self.iterations += steps
            self.moves += moves
            done = until
            self._tell(min(best, self.best_cost))
        state = empty_state(tables, homes, brokers)
        search_kernels.rebuild(tables, state)
        self.moves += anneal_kernels.descend(tables, state, _DESCENT_ROUNDS)
        self._keep(state, float(search_kernels.rebuild(tables, state)))

    def _keep(self, state: PlacementState, cost: float) -> None:
        if cost < self.best_cost:
            self.best_cost = cost
            self.best_homes = state.homes.copy()
            self.best_brokers = state.is_broker.copy()

    def _tell(self, cost: float) -> None:
        if self.on_progress is not None:
            limit = self.watch.limit_s
            by_time = 0.0 if limit is None else self.watch.seconds() / max(limit, 1e-9)
            done = max(self.iterations / self.budget, by_time)
            self.on_progress(Progress("search", min(done, 1.0), cost))

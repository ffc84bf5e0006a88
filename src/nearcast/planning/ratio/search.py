"""The anytime search for M2: simulated annealing over homes, ended by a descent."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import IndexArray
from nearcast.errors import ConfigError
from nearcast.planning.ratio.starts import centre_homes
from nearcast.planning.ratio.state import SearchState
from nearcast.planning.ratio.workspace import Workspace, workspace_of
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = [
    "SearchParams",
    "SearchResult",
    "default_iterations",
    "random_state",
    "result_of",
    "search_ratio",
    "temperature_unit",
]

_CHUNKS = 100
"""A search looks at the clock and reports this often."""
_DESCENT_SWEEPS = 50
_CANDIDATES = 12
"""Servers that a descent looks at for a client, about; an annealing sweep looks at one."""
_LONG_SWEEPS = 2000
_SHAKE = 20.0
"""How much hotter than `SearchParams.hot` a long search begins."""
_SHAKE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class SearchParams:
    """How long and how to search.

    With `iterations` (or neither limit) the result depends on the seed alone; a time limit
    makes it depend on the machine.
    """

    iterations: int | None = None
    """Moves to look at, rounded up to whole sweeps over the clients."""
    time_limit_s: float | None = None
    """Seconds for everything, set-up included; ends the search even before `iterations`."""
    seed: int = 0
    hot: float = 0.5
    """First temperature, in units of a typical client's detour to the next server."""
    cold: float = 0.03
    """Last temperature, in the same unit."""
    group_chance: float = 0.01
    """Share of moves that take all members of a topic at a server along."""
    swap_chance: float = 0.2
    """Share of moves that, where the server is full, swap two clients instead."""

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"iterations must be 1 or more, not {self.iterations}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise ConfigError(f"the time limit must be positive, not {self.time_limit_s}")
        if self.seed < 0:
            raise ConfigError(f"the seed must not be negative: {self.seed}")
        if not self.hot >= self.cold > 0:
            raise ConfigError(f"temperatures must fall and be positive: {self.hot}, {self.cold}")
        if min(self.group_chance, self.swap_chance) < 0 or self.group_chance + self.swap_chance > 1:
            raise ConfigError("the chances of group moves and swaps are shares of all moves")


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best plan found."""

    homes: IndexArray
    cost_ms: float
    """Y of the plan, eq. (7), without the price of migrations."""
    iterations: int
    moves: int
    """Moves taken."""
    seconds: float
    migrated_spools: int
    """Spools (topic, server) that the plan in force does not have; 0 without one."""
    trace: list[tuple[float, int, float]]
    """(seconds, iterations, lowest mean cost in ms, migrations included) as the search went on."""


def default_iterations(client_count: int) -> int:
    """Return a length that takes about 2 s for a thousand clients, a minute for a million."""
    return int(2e7 * max(client_count / 1000, 1.0) ** 0.36)


def search_ratio(
    problem: RatioProblem,
    params: SearchParams,
    start_homes: IndexArray | None = None,
    kept_homes: IndexArray | None = None,
    migration_price_ms: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Return the best plan found; never worse than any start.

    Starts from the best of: nearest servers, topics kept together, `start_homes` and
    `kept_homes`.

    Parameters
    ----------
    start_homes
        A plan to start from, as other methods make it.
    kept_homes
        The plan in force; every spool that it does not have costs `migration_price_ms`, in ms
        of summed delay.
    """
    watch = Stopwatch(params.time_limit_s)
    workspace = workspace_of(problem, kept_homes, migration_price_ms)
    starts = [workspace.nearest_homes()]
    starts.append(centre_homes(problem, starts[0]))
    starts.extend(homes for homes in (start_homes, kept_homes) if homes is not None)
    costs = [workspace.set_homes(homes) for homes in starts]
    workspace.set_homes(starts[int(np.argmin(costs))])
    run = _Run(workspace, params, watch, on_progress)
    if problem.network.server_count > 1 and problem.deliveries:
        # Ctrl-C ends the annealing; the best plan so far is kept.
        with suppress(KeyboardInterrupt):
            run.anneal()
        run.descend()
        run.return_to_best()
    return run.result()


class _Run:
    """One annealing in progress: its place in the schedule, its counts and its trace."""

    def __init__(
        self,
        workspace: Workspace,
        params: SearchParams,
        watch: Stopwatch,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._workspace = workspace
        self._state = workspace.state
        self._params = params
        self._watch = watch
        self._on_progress = on_progress
        self._rng = random_state(params.seed)
        self._clients = max(len(self._state.homes), 1)
        self._sweeps = 0
        self._sweep_s = 0.0
        self._moves = 0
        self._best_cost = workspace.rebuild()
        self._best_homes = self._state.homes.copy()
        self._trace: list[tuple[float, int, float]] = []
        iterations = params.iterations
        if iterations is None and params.time_limit_s is None:
            iterations = default_iterations(self._clients)
        self._sweep_limit = None if iterations is None else -(-iterations // self._clients)
        self._unit = temperature_unit(self._state)
        self._is_long = self._sweep_limit is not None and self._sweep_limit >= _LONG_SWEEPS

    def anneal(self) -> None:
        """Let the temperature fall until the sweeps or the time are used up."""
        from nearcast.planning.ratio.anneal_kernels import anneal

        params, state = self._params, self._state
        members = np.flatnonzero(np.diff(state.client_start)).astype(np.int32)
        chances = params.group_chance, params.swap_chance
        # Waits for the compiler, so that the first chunk is as fast as the others.
        anneal(state, self._rng, members, 0, 1.0, 1.0, *chances)
        begin_s, chunk = self._watch.seconds(), 1
        while (fraction := self._fraction(begin_s)) < 1:
            if self._sweep_limit is not None:
                chunk = min(-(-self._sweep_limit // _CHUNKS), self._sweep_limit - self._sweeps)
            if params.time_limit_s is not None:
                share_s = (params.time_limit_s - begin_s) / _CHUNKS
                affordable = max(int(share_s / self._sweep_s), 1) if self._sweep_s > 0 else 1
                if self._sweep_limit is None:
                    chunk, self._is_long = affordable, affordable * _CHUNKS >= _LONG_SWEEPS
                else:
                    chunk = min(chunk, affordable)
            ahead = min(self._fraction(begin_s, chunk), 1.0)
            from_to = self._temperature(fraction), self._temperature(ahead)
            _, moves = anneal(state, self._rng, members, chunk, *from_to, *chances)
            self._sweeps += chunk
            self._sweep_s = (self._watch.seconds() - begin_s) / self._sweeps
            self._moves += moves
            self._report(ahead)

    def _temperature(self, fraction: float) -> float:
        """Return the temperature at a point of the schedule.

        A long search first shakes the start off at temperatures at which even a server's
        overload is no obstacle; a short one has no time for that.
        """
        hot, cold = self._params.hot * self._unit, self._params.cold * self._unit
        if fraction < _SHAKE_SHARE and self._is_long:
            return float(hot * _SHAKE ** (1 - fraction / _SHAKE_SHARE))
        cooled = max((fraction - _SHAKE_SHARE) / (1 - _SHAKE_SHARE), 0.0)
        return float(hot * (cold / hot) ** cooled)

    def _fraction(self, begin_s: float, ahead: int = 0) -> float:
        """Return how much of the annealing is done, now or `ahead` sweeps later."""
        done = 0.0
        if self._sweep_limit is not None:
            done = (self._sweeps + ahead) / self._sweep_limit
        limit_s = self._params.time_limit_s
        if limit_s is not None:
            descent_s = min(3 * _CANDIDATES * self._sweep_s, 0.1 * limit_s)
            used_s = self._watch.seconds() - begin_s + (ahead + 1) * self._sweep_s
            done = max(done, used_s / max(limit_s - begin_s - descent_s, 1e-9))
        return done

    def descend(self) -> None:
        """Take improving moves until there is none or the time is up."""
        from nearcast.planning.ratio.anneal_kernels import descend

        sweep_s = _CANDIDATES * self._sweep_s
        grace_s = 0.05 * (self._params.time_limit_s or 0.0)
        for _ in range(_DESCENT_SWEEPS):
            before_s = self._watch.seconds()
            if self._watch.left_s() + grace_s < sweep_s or descend(self._state) == 0.0:
                break
            sweep_s = self._watch.seconds() - before_s
        self._report(1.0)

    def return_to_best(self) -> None:
        """Go back to the best plan met, if this is not it, and descend from there."""
        if self._workspace.rebuild() > self._best_cost:
            self._state.homes[:] = self._best_homes
            self._workspace.rebuild()
            self.descend()

    def _report(self, fraction: float) -> None:
        cost = self._workspace.rebuild()
        if cost < self._best_cost:
            self._best_cost = cost
            self._best_homes[:] = self._state.homes
        mean_ms = self._workspace.mean_ms(self._best_cost)
        self._trace.append((self._watch.seconds(), self._sweeps * self._clients, mean_ms))
        if self._on_progress is not None:
            self._on_progress(Progress(stage="search", fraction=fraction, cost=mean_ms))

    def result(self) -> SearchResult:
        """Return the plan as it stands."""
        iterations = self._sweeps * self._clients
        return result_of(
            self._workspace, iterations, self._moves, self._watch.seconds(), self._trace
        )


def result_of(
    workspace: Workspace,
    iterations: int,
    moves: int,
    seconds: float,
    trace: list[tuple[float, int, float]],
) -> SearchResult:
    """Return the workspace's plan with its cost."""
    from nearcast.planning.ratio.move_kernels import new_spools

    migrated = int(new_spools(workspace.state))
    cost = workspace.rebuild() - migrated * workspace.state.price_ms
    return SearchResult(
        homes=workspace.homes(),
        cost_ms=workspace.mean_ms(cost),
        iterations=iterations,
        moves=moves,
        seconds=seconds,
        migrated_spools=migrated,
        trace=trace,
    )


def random_state(seed: int) -> npt.NDArray[np.uint64]:
    """Return the state of the kernels' random numbers."""
    return np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64)


def temperature_unit(state: SearchState) -> float:
    """Return what a typical client pays for a home one server further away, in ms."""
    between = state.from_ms + np.diag(np.full(len(state.from_ms), np.inf))
    step_ms = float(np.mean(between.min(axis=1)))
    unit = step_ms * float(np.mean(state.leg_weight))
    return unit if unit > 0 and math.isfinite(unit) else 1.0

"""The anytime search for M2: simulated annealing over homes, ended by a descent."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import FloatArray, IndexArray
from nearcast.planning.ratio.annealing import Annealing
from nearcast.planning.ratio.search_params import SearchParams
from nearcast.planning.ratio.starts import centre_homes
from nearcast.planning.ratio.workspace import Workspace, workspace_of
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = [
    "SearchResult",
    "default_iterations",
    "random_state",
    "result_of",
    "search_ratio",
    "temperature_unit",
]


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
    """Return a length that takes about 2 s for a thousand clients, a minute for a million.

    Below a hundred clients it shrinks with their number: 200,000 steps a client are plenty.
    """
    return int(2e7 * min(client_count / 100, 1.0) * max(client_count / 1000, 1.0) ** 0.36)


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
    iterations = params.iterations
    if iterations is None and params.time_limit_s is None:
        iterations = default_iterations(problem.network.client_count)
    each_sweep = max(problem.network.client_count, 1)
    run = Annealing(
        workspace,
        params,
        watch,
        None if iterations is None else -(-iterations // each_sweep),
        random_state(params.seed),
        temperature_unit(workspace.state.from_ms, workspace.state.leg_weight),
        on_progress,
    )
    if problem.network.server_count > 1 and problem.deliveries:
        # Ctrl-C ends the annealing; the best plan so far is kept.
        with suppress(KeyboardInterrupt):
            run.anneal()
        run.descend()
        run.return_to_best()
    return result_of(workspace, run.iterations, run.moves, watch.seconds(), run.trace)


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


def random_state(seed: int | tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """Return the state of the kernels' random numbers."""
    return np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64)


def temperature_unit(between_ms: FloatArray, leg_weight: FloatArray) -> float:
    """Return what a typical client pays for a home one server further away, in ms."""
    other = between_ms + np.diag(np.full(len(between_ms), np.inf))
    step_ms = float(np.mean(other.min(axis=1)))
    unit = step_ms * float(np.mean(leg_weight))
    return unit if unit > 0 and math.isfinite(unit) else 1.0

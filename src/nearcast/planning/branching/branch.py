"""Exact homes for small problems: branch and bound of our own, exact for M1 and M2.

The local share is a quotient, so neither model is linear; with the few clients for which an
exact answer is in reach a direct search beats a linearised program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.plan import PlanStatus
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray
from nearcast.errors import PlanningError
from nearcast.planning.exact_result import ExactResult
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.planning.branching.branch_kernels import BranchTables

__all__ = ["check_size", "solve_homes"]

_MOST_PAIRS = 5_000_000
_WORK_PER_CHUNK = 20_000_000
"""Elementary steps between two looks at the clock."""
_TOLERANCE = 1e-9


def check_size(pairs: float) -> None:
    """Refuse problems of which not even one bound could be computed in reasonable time."""
    if pairs > _MOST_PAIRS:
        raise PlanningError(
            f"{pairs:.3g} publisher/subscriber pairs are too many for an exact method; "
            "take the method optimised, which reports a bound as well"
        )


def solve_homes(
    tables: BranchTables,
    start: IndexArray,
    time_limit_s: float | None,
    lower_bound: float,
    on_progress: Callable[[Progress], None] | None,
) -> ExactResult:
    """Return the best homes, proved optimal or with the bound reached in time."""
    from nearcast.planning.branching.branch_kernels import cost_of, explore, improve

    watch = Stopwatch(time_limit_s)
    clients, servers = tables.leg_cost.shape
    best_homes = start.astype(np.int32)
    best = float(cost_of(tables, best_homes))
    for c in range(clients):
        if watch.expired():
            break
        best = float(improve(tables, best_homes, c, best))
    homes = np.full(clients, -1, dtype=np.int32)
    bound = max(lower_bound, float(cost_of(tables, homes)))
    # Clients that publish and receive most first: they decide the shares early.
    weight = tables.leg_cost.mean(axis=1)
    order = np.argsort(-weight, kind="stable").astype(np.int32)
    child_bound = np.zeros((clients, servers))
    child = np.zeros((clients, servers), dtype=np.int64)
    next_child = np.full(clients, -1, dtype=np.int32)
    work = (len(tables.weight) + clients) * servers * servers
    chunk = max(_WORK_PER_CHUNK // max(work, 1), 1)
    depth, nodes = (0 if clients else -1), 0
    while depth >= 0 and bound < best - _TOLERANCE and not watch.expired():
        depth, best, left = explore(
            tables,
            order,
            homes,
            child_bound,
            child,
            next_child,
            depth,
            best_homes,
            best,
            _TOLERANCE,
            chunk,
        )
        nodes += chunk - left
        if depth >= 0:
            bound = max(
                bound, min(best, _open_bound(child_bound, child, next_child, depth, homes[order]))
            )
        if on_progress is not None:
            done = 0.0 if time_limit_s is None else min(watch.seconds() / time_limit_s, 1.0)
            on_progress(Progress("solve", done, best, bound))
    optimal = depth < 0 or bound >= best - _TOLERANCE
    return ExactResult(
        homes=best_homes,
        cost=best,
        bound=best if optimal else bound,
        status=PlanStatus.OPTIMAL if optimal else PlanStatus.TIME_LIMIT,
        seconds=watch.seconds(),
        nodes=nodes,
    )


def _open_bound(
    child_bound: FloatArray,
    child: OffsetArray,
    next_child: IndexArray,
    depth: int,
    path: IndexArray,
) -> float:
    """Return the least bound of all parts not looked at yet; `path` has the home by depth."""
    least = np.inf
    for d in range(depth + 1):
        if next_child[d] >= 0:
            waiting = child_bound[d, child[d, next_child[d] :]]
            least = min(least, float(waiting.min(initial=np.inf)))
        else:
            # Chosen at the depth above, but not expanded yet.
            least = min(least, float(child_bound[d - 1, path[d - 1]]) if d else -np.inf)
    return least

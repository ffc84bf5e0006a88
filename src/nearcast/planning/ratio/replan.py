"""Re-planning for M2: what little changed is looked at first, and nothing else needs to be."""

from __future__ import annotations

import numpy as np

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import BoolArray, IndexArray
from nearcast.planning.ratio.search import (
    SearchResult,
    default_iterations,
    random_state,
    result_of,
    temperature_unit,
)
from nearcast.planning.ratio.search_params import SearchParams
from nearcast.planning.ratio.state import SearchState
from nearcast.planning.ratio.workspace import workspace_of
from nearcast.planning.stopping import Stopwatch

__all__ = ["replan_ratio"]

_SHARE_OF_A_SEARCH = 0.005
_HOT = 0.1
"""First temperature, in the unit of `SearchParams.hot`: far too cold to undo the plan."""
_NEAR_SERVERS = 4
_CHUNKS = 20


def replan_ratio(
    problem: RatioProblem,
    params: SearchParams,
    kept_homes: IndexArray,
    migration_price_ms: float = 0.0,
    changed: IndexArray | None = None,
    kept_spools: tuple[IndexArray, IndexArray] | None = None,
) -> SearchResult:
    """Return a plan for a scenario that changed a little; never worse than the plan in force.

    A descent follows a queue of clients: those that changed and the members of their topics,
    then the topic neighbours of whoever moved. A short annealing at a low temperature goes
    over all clients that the queue met, and the queue again cleans up after it.

    Parameters
    ----------
    params
        `iterations` defaults to 0.5 % of a search from scratch; `hot` is not used.
    kept_homes
        The plan in force, a home for every client of `problem`.
    migration_price_ms
        What a spool (topic, server) that is not in the plan in force costs, in ms of summed
        delay.
    changed
        Clients that moved, are new or changed their topics; None: look at all.
    kept_spools
        Topics and servers of the spools in force; None: what `kept_homes` implies.
    """
    watch = Stopwatch(params.time_limit_s)
    affected = _affected(problem, changed)
    workspace = workspace_of(
        problem, kept_homes, migration_price_ms, _NEAR_SERVERS, affected, kept_spools
    )
    state = workspace.state
    kept_cost = workspace.set_homes(kept_homes)
    trace = [(watch.seconds(), 0, workspace.mean_ms(kept_cost))]
    moves, touched = _descend_from(state, affected[workspace.client_order])
    best_homes, best_cost = workspace.homes(), workspace.rebuild()
    trace.append((watch.seconds(), int(touched.sum()), workspace.mean_ms(best_cost)))
    members = np.flatnonzero(touched & (np.diff(state.client_start) > 0)).astype(np.int32)
    proposals, taken = _anneal(state, params, members, watch)
    more, _ = _descend_from(state, touched)
    if workspace.rebuild() > best_cost:
        best_cost = workspace.set_homes(best_homes)
    iterations = int(touched.sum()) + proposals
    trace.append((watch.seconds(), iterations, workspace.mean_ms(workspace.rebuild())))
    return result_of(workspace, iterations, moves + taken + more, watch.seconds(), trace)


def _affected(problem: RatioProblem, changed: IndexArray | None) -> BoolArray:
    """Return the marks of the changed clients and of everybody in one of their topics."""
    clients = problem.network.client_count
    if changed is None:
        return np.ones(clients, dtype=np.bool_)
    marked = np.zeros(clients, dtype=np.bool_)
    marked[changed] = True
    topics = np.zeros(problem.topic_count, dtype=np.bool_)
    topics[problem.member_topic[marked[problem.member_client]]] = True
    marked[problem.member_client[topics[problem.member_topic]]] = True
    return marked


def _descend_from(state: SearchState, marked: BoolArray) -> tuple[int, BoolArray]:
    """Descend from the marked clients on; return the moves and the marks of all looked at."""
    from nearcast.planning.ratio.anneal_kernels import descend_from

    waiting, touched = marked.copy(), np.zeros_like(marked)
    first = np.flatnonzero(marked)
    queue = np.zeros(len(marked), dtype=np.int32)
    queue[: len(first)] = first
    moves = int(descend_from(state, queue, waiting, touched, len(first)))
    return moves, touched


def _anneal(
    state: SearchState, params: SearchParams, clients: IndexArray, watch: Stopwatch
) -> tuple[int, int]:
    """Anneal some clients in short chunks; return (moves looked at, moves taken)."""
    from nearcast.planning.ratio.anneal_kernels import anneal

    iterations = params.iterations
    if iterations is None:
        iterations = int(_SHARE_OF_A_SEARCH * default_iterations(len(state.homes)))
    sweeps = -(-iterations // max(len(clients), 1))
    if not len(clients) or len(state.storage) < 2:
        return 0, 0
    rng, unit = random_state(params.seed), temperature_unit(state.from_ms, state.leg_weight)
    ratio = min(params.cold / _HOT, 1.0)
    chunk, done, taken = max(sweeps // _CHUNKS, 1), 0, 0
    while done < sweeps and not watch.expired():
        chunk = min(chunk, sweeps - done)
        hot = _HOT * unit * ratio ** (done / sweeps)
        cold = _HOT * unit * ratio ** ((done + chunk) / sweeps)
        _, moves = anneal(
            state, rng, clients, chunk, hot, cold, params.group_chance, params.swap_chance
        )
        done += chunk
        taken += moves
    return done * len(clients), taken

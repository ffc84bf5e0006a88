"""The search for M2 in parts: each anneals the clients of some servers while the others stand.

A part is a group of servers near each other and the clients at home there now; all members of
their topics are known, and what the other servers keep and delegate. Parts can be searched at
the same time. In the next stretch of the schedule the servers are grouped otherwise, so that the
seams of one are the middle of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearcast.delay.ratio import RatioProblem, ratio_problem
from nearcast.domain.part import take_part
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario
from nearcast.planning.ratio.annealing import Annealing
from nearcast.planning.ratio.search import random_state
from nearcast.planning.ratio.search_params import SearchParams
from nearcast.planning.ratio.workspace import workspace_of
from nearcast.planning.stopping import Stopwatch

__all__ = ["Stretch", "group_servers", "search_part", "share_across_parts"]

_TURN = 1.0
"""Radians by which the grouping turns from one stretch to the next: no two have the same seams."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the schedule, the same for all parts."""

    window: tuple[float, float]
    """Where it begins and ends in the whole schedule, 0 to 1; a descent follows the end."""
    sweeps: int | None
    time_limit_s: float | None
    """Seconds for each part."""
    seed: int
    unit_ms: float
    """The unit of temperatures, that of the whole problem."""


def group_servers(
    x_km: FloatArray, y_km: FloatArray, load: FloatArray, parts: int, stretch: int
) -> IndexArray:
    """Return the part of each server: halved by load across the longer side, again and again."""
    angle = _TURN * stretch
    place = np.stack(
        [
            x_km * math.cos(angle) + y_km * math.sin(angle),
            y_km * math.cos(angle) - x_km * math.sin(angle),
        ]
    )
    part = np.zeros(len(x_km), dtype=np.int32)
    waiting = [(np.arange(len(x_km)), parts, 0)]
    while waiting:
        servers, count, first = waiting.pop()
        part[servers] = first
        if count < 2 or len(servers) < 2:
            continue
        axis = int(np.argmax(np.ptp(place[:, servers], axis=1)))
        order = servers[np.argsort(place[axis, servers], kind="stable")]
        upto = np.cumsum(load[order])
        half = count // 2
        cut = int(np.searchsorted(upto, upto[-1] * half / count, side="right"))
        cut = min(max(cut, 1), len(order) - 1)
        waiting += [(order[:cut], half, first), (order[cut:], count - half, first + half)]
    return part


def share_across_parts(problem: RatioProblem, homes: IndexArray, server_part: IndexArray) -> float:
    """Return the share of the members whose topic has members at home in several parts."""
    part = server_part[homes[problem.member_client]]
    first = part[np.minimum(problem.topic_start[:-1], max(len(part) - 1, 0))]
    across = np.zeros(problem.topic_count, dtype=np.bool_)
    across[problem.member_topic[part != first[problem.member_topic]]] = True
    return float(across[problem.member_topic].mean()) if len(part) else 0.0


def search_part(
    scenario: Scenario,
    homes: IndexArray,
    near: IndexArray,
    server_part: IndexArray,
    part: int,
    local_share: FloatArray,
    stretch: Stretch,
) -> tuple[IndexArray, IndexArray, int]:
    """Search one part of a scenario through a stretch.

    Parameters
    ----------
    homes, local_share : the plan so far, and what its servers keep.
    near : the nearest servers [client, rank].
    server_part, part : the part of each server; which one to search.

    Returns
    -------
    tuple
        The clients that may have moved, their homes, and how many moves were looked at.
    """
    watch = Stopwatch(stretch.time_limit_s)
    members = scenario.members
    is_mine = server_part[homes] == part
    touched = np.zeros(len(scenario.topics), dtype=np.bool_)
    touched[members.topic[is_mine[members.client]]] = True
    taken = take_part(scenario, np.flatnonzero(touched[members.topic]))
    if not len(taken.rows):
        return taken.clients, taken.clients, 0
    workspace = workspace_of(ratio_problem(taken.scenario), near=near[taken.clients])
    workspace.set_homes(homes[taken.clients])
    workspace.close_servers(server_part != part, local_share)
    mine = is_mine[taken.clients]
    run = Annealing(
        workspace,
        SearchParams(time_limit_s=stretch.time_limit_s),
        watch,
        stretch.sweeps,
        random_state((stretch.seed, part)),
        stretch.unit_ms,
        window=stretch.window,
        clients=np.flatnonzero(mine[workspace.client_order]).astype(np.int32),
    )
    run.anneal()
    if stretch.window[1] >= 1:
        run.descend()
    return taken.clients[mine], workspace.homes()[mine], run.iterations

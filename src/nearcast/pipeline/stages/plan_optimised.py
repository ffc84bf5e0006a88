"""The search for M2 on executors: parts of the servers at once, then a pass over their seams.

Deviation from the search in memory: the first four fifths of the schedule anneal groups of
servers apart (`planning.ratio.parts`), each time grouped otherwise; the last one goes over all
clients at a low temperature and descends, which repairs what the seams kept apart. Where topics
do not keep to groups of servers (or there are few clients) that would cost quality, and one task
searches the whole, as in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.delay.network import network_of
from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.cpu_time import CpuTime
from nearcast.pipeline.stages.shared_scenario import SharedScenario
from nearcast.planning.optimised import best_start
from nearcast.planning.ratio.parts import (
    Stretch,
    group_servers,
    search_part,
    share_across_parts,
)
from nearcast.planning.ratio.search import default_iterations, temperature_unit
from nearcast.planning.ratio.starts import centre_homes
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.searches import load_compiled
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CLIENTS_PER_PART", "search_in_parts"]

CLIENTS_PER_PART = 25_000
"""A part's arrays then fit a processor's cache; the number of parts depends on nothing else, so
that a plan is the same on every machine."""
_SERVERS_PER_PART = 64
"""With fewer, most servers would be at a seam."""
_MOST_ACROSS = 0.25
"""Share of the members in topics across parts up to which parts are searched apart."""
_ENDS = (0.4, 0.8, 1.0)
"""Where the stretches of the schedule end; the last is that of the whole."""
_NEAR_SERVERS = 8
_REPAIR_SHARE = 0.3
"""Of a time limit, for the last stretch and its descent."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What a task found."""

    clients: IndexArray
    homes: IndexArray
    iterations: int
    cpu_s: float


def search_in_parts(
    spark: SparkSession, shared: SharedScenario, scenario: Scenario, request: PlanRequest
) -> Decision | None:
    """Return the best plan found, without a bound; None: the whole should be searched at once.

    The plan depends on the seed and `request.iterations` alone, or, with a time limit, on the
    machine: the limit is in seconds of the clock, which every core uses.
    """
    watch, clients = Stopwatch(request.time_limit_s), len(scenario.clients)
    parts = min(clients // CLIENTS_PER_PART, len(scenario.servers) // _SERVERS_PER_PART)
    if parts < 2:
        return None
    problem = ratio_problem(scenario)
    near = _near_servers(spark, shared, clients)
    start = _start(scenario, request, problem, near)
    if share_across_parts(problem, start, _groups(scenario, start, parts, 0)) > _MOST_ACROSS:
        return None
    iterations = request.iterations
    if iterations is None and request.time_limit_s is None:
        iterations = default_iterations(clients)
    sweeps = None if iterations is None else -(-iterations // clients)
    unit_ms = temperature_unit(problem.network.server_server_ms, problem.leg_weight)
    homes, begin, looked_at, cpu_s = start, 0.0, 0, 0.0
    for number, end in enumerate(_ENDS):
        count = parts if end < 1 else 1
        stretch = Stretch(
            window=(begin, end),
            sweeps=None if sweeps is None else max(round(sweeps * end) - round(sweeps * begin), 1),
            time_limit_s=_limit_s(spark, watch, count, begin, end),
            seed=request.seed * len(_ENDS) + number,
            unit_ms=unit_ms,
        )
        grouped = _groups(scenario, homes, count, number)
        cost = evaluate_ratio(problem, homes)
        found = _search(spark, shared, stretch, grouped, count, cost.local_share, homes, near)
        homes = homes.copy()
        for one in found:
            homes[one.clients] = one.homes
            looked_at += one.iterations
            cpu_s += one.cpu_s
        begin = end
    costs = [evaluate_ratio(problem, plan).y_ms for plan in (start, homes)]
    seconds = watch.seconds()
    search: dict[str, Any] = {
        "cost": min(costs),
        "iterations": looked_at,
        "moves_per_second": looked_at / max(seconds, 1e-9),
        "search_seconds": seconds,
        "search_cpu_seconds": cpu_s,
        "parts": parts,
    }
    best = homes if costs[1] <= costs[0] else start
    return Decision(homes=best, status=PlanStatus.FEASIBLE, search=search)


def _near_servers(spark: SparkSession, shared: SharedScenario, clients: int) -> IndexArray:
    """Return the nearest servers [client, rank], found in blocks of clients."""
    count = -(-clients // CLIENTS_PER_PART)

    def near_of(block: int) -> IndexArray:
        network = network_of(shared.load())
        rows = slice(block * clients // count, (block + 1) * clients // count)
        measured = network.client_server_ms
        some = replace(
            network,
            client_x_km=network.client_x_km[rows],
            client_y_km=network.client_y_km[rows],
            client_server_ms=measured[rows] if measured.size else measured,
        )
        return some.nearest_servers(_NEAR_SERVERS)[1]

    return np.concatenate(collect_blocks(spark, count, near_of))


def _start(
    scenario: Scenario, request: PlanRequest, problem: RatioProblem, near: IndexArray
) -> IndexArray:
    """Return the best plan by rule, as the search in memory begins with."""
    nearest = np.ascontiguousarray(near[:, 0])
    plans = [nearest, centre_homes(problem, nearest), best_start(scenario, request)]
    costs = [evaluate_ratio(problem, plan).y_ms for plan in plans]
    return plans[int(np.argmin(costs))]


def _groups(scenario: Scenario, homes: IndexArray, parts: int, number: int) -> IndexArray:
    servers = scenario.servers
    load = np.bincount(homes, minlength=len(servers)).astype(np.float64)
    return group_servers(servers.x_km, servers.y_km, load, parts, number)


def _limit_s(
    spark: SparkSession, watch: Stopwatch, count: int, begin: float, end: float
) -> float | None:
    """Return the seconds of one task, so that all tasks of a stretch end in time."""
    if watch.limit_s is None:
        return None
    left_s = max(watch.left_s(), 0.05 * watch.limit_s)
    if end >= 1:
        return left_s
    share = (end - begin) / (_ENDS[-2] - begin)
    at_once = min(spark.sparkContext.defaultParallelism, count)
    stretch_s = max(left_s - _REPAIR_SHARE * watch.limit_s, 0.05 * watch.limit_s) * share
    return stretch_s / -(-count // at_once)


def _search(
    spark: SparkSession,
    shared: SharedScenario,
    stretch: Stretch,
    grouped: IndexArray,
    count: int,
    local_share: FloatArray,
    homes: IndexArray,
    near: IndexArray,
) -> list[_Found]:
    """Search all parts through a stretch."""
    with share_arrays(spark, {"homes": homes, "near": near}) as files:

        def found_in(part: int) -> _Found:
            load_compiled(Model.RATIO)
            known = {name: np.asarray(array) for name, array in files.load().items()}
            with CpuTime() as cpu:
                clients, servers, iterations = search_part(
                    shared.load(),
                    known["homes"],
                    known["near"],
                    grouped,
                    part,
                    local_share,
                    stretch,
                )
            return _Found(clients, servers, iterations, cpu.seconds)

        return collect_blocks(spark, count, found_in)

"""The search for M2 on executors: parts of the servers at once, then a pass over their seams.

Deviation from the search in memory: nine tenths of the schedule anneal groups of servers apart
(`planning.ratio.parts`), four times grouped otherwise; the last tenth goes over all clients at a
low temperature and descends, which repairs what the seams kept apart. Where topics do
not keep to groups of servers, where there are few clients or where the search is short, that
would cost quality, and one task searches the whole, as in memory. ``nearcast bench split``
measures both at equal CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.delay.network import network_of
from nearcast.delay.ratio import RatioProblem, evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model, PlanStatus
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario, Servers
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.cpu_time import CpuTime
from nearcast.pipeline.stages.plan_totals import assess_on_executors
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
_FEWEST_SWEEPS = 400
"""A shorter search would feel what the parts' set-up takes, and not repair all of the seams."""
_SWEPT_CLIENTS_PER_S = 7e6
"""By one core, about; tells how many sweeps a time limit allows."""
_ENDS = (0.3, 0.6, 0.8, 0.9, 1.0)
"""Where the stretches of the schedule end; the last is that of the whole."""
_NEAR_SERVERS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Begin:
    """What the search begins with."""

    homes: IndexArray
    across: float
    """Share of the members in topics across the first parts."""
    unit_ms: float
    """The unit of temperatures."""
    cpu_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What a task found."""

    clients: IndexArray
    homes: IndexArray
    iterations: int
    cpu_s: float


def search_in_parts(
    spark: SparkSession,
    shared: SharedScenario,
    scenario: Scenario,
    request: PlanRequest,
    parts: int | None = None,
) -> Decision | None:
    """Return the best plan found, without a bound; None: the whole should be searched at once.

    The plan depends on the seed and `request.iterations` alone, or, with a time limit, on the
    machine: the limit is in seconds of the clock, which every core uses. It is for the search
    alone: starting workers and making the plans to start from comes before it.

    Parameters
    ----------
    parts : split into so many in any case; None: by size, and only where it costs no quality.
    """
    clients = len(scenario.clients)
    count = parts or min(clients // CLIENTS_PER_PART, len(scenario.servers) // _SERVERS_PER_PART)
    if count < 2 or (parts is None and _moves_to_come(request, clients) < _FEWEST_SWEEPS * clients):
        return None
    with CpuTime() as driver_cpu:
        near, task_cpu_s = _near_servers(spark, shared, clients)
        begin = _begin(spark, shared, request, count, near)
        task_cpu_s += begin.cpu_s
        if parts is None and begin.across > _MOST_ACROSS:
            return None
        homes, looked_at = begin.homes, 0
        value, cpu_s = assess_on_executors(spark, shared, scenario, homes, Model.RATIO)
        start_ms, task_cpu_s = value.cost, task_cpu_s + cpu_s
        cores, watch = spark.sparkContext.defaultParallelism, Stopwatch(request.time_limit_s)
        stretches = _stretches(request, clients, begin.unit_ms, count, cores, watch)
        for number, stretch in enumerate(stretches):
            tasks = count if stretch.window[1] < 1 else 1
            grouped = _groups(scenario.servers, homes, tasks, number)
            moved = _search(spark, shared, stretch, grouped, tasks, value.local_share, homes, near)
            homes = homes.copy()
            for one in moved:
                homes[one.clients] = one.homes
                looked_at += one.iterations
                task_cpu_s += one.cpu_s
            value, cpu_s = assess_on_executors(spark, shared, scenario, homes, Model.RATIO)
            task_cpu_s += cpu_s
    seconds = watch.seconds()
    search: dict[str, Any] = {
        "cost": min(start_ms, value.cost),
        "iterations": looked_at,
        "moves_per_second": looked_at / max(seconds, 1e-9),
        "search_seconds": seconds,
        "search_cpu_seconds": driver_cpu.seconds + task_cpu_s,
        "parts": count,
    }
    best = homes if value.cost <= start_ms else begin.homes
    return Decision(homes=best, status=PlanStatus.FEASIBLE, search=search)


def _moves_to_come(request: PlanRequest, clients: int) -> float:
    """Return how many moves the search will look at, about."""
    if request.iterations is None and request.time_limit_s is None:
        return default_iterations(clients)
    limit_s = float("inf") if request.time_limit_s is None else request.time_limit_s
    return min(request.iterations or float("inf"), _SWEPT_CLIENTS_PER_S * limit_s)


def _stretches(
    request: PlanRequest, clients: int, unit_ms: float, parts: int, cores: int, watch: Stopwatch
) -> Iterator[Stretch]:
    """Give one stretch of the schedule after the other; a time limit is shared when it is due.

    All stretches get as many sweeps for their width, so that equal CPU time buys what it buys in
    memory: those in parts get less of the clock, as several tasks run at once.
    """
    iterations = request.iterations
    if iterations is None and request.time_limit_s is None:
        iterations = default_iterations(clients)
    sweeps = None if iterations is None else -(-iterations // clients)
    begin, lost_s, limit_s = 0.0, 0.0, None
    for number, end in enumerate(_ENDS):
        in_turn = -(-parts // min(cores, parts)) if end < 1 else 1
        begin_s = watch.seconds()
        if watch.limit_s is not None:
            apart, whole = (_ENDS[-2] - begin) * in_turn / parts, 1 - _ENDS[-2]
            mine = whole if end >= 1 else (end - begin) * in_turn / parts
            left_s = watch.left_s() - lost_s * (len(_ENDS) - number)
            limit_s = max(left_s, 0.05 * watch.limit_s) * mine / (apart + whole) / in_turn
        yield Stretch(
            window=(begin, end),
            sweeps=None if sweeps is None else max(round(sweeps * end) - round(sweeps * begin), 1),
            time_limit_s=limit_s,
            seed=request.seed * len(_ENDS) + number,
            unit_ms=unit_ms,
        )
        if limit_s is not None:
            # What sharing arrays and starting tasks took will be taken again.
            lost_s = max(watch.seconds() - begin_s - in_turn * limit_s, 0.0)
        begin = end


def _near_servers(
    spark: SparkSession, shared: SharedScenario, clients: int
) -> tuple[IndexArray, float]:
    """Return the nearest servers [client, rank], found in blocks of clients, and CPU seconds."""
    count = -(-clients // CLIENTS_PER_PART)

    def near_of(block: int) -> tuple[IndexArray, float]:
        # Here, so that no time limit is spent on it.
        load_compiled(Model.RATIO)
        network = network_of(shared.load())
        rows = slice(block * clients // count, (block + 1) * clients // count)
        measured = network.client_server_ms
        some = replace(
            network,
            client_x_km=network.client_x_km[rows],
            client_y_km=network.client_y_km[rows],
            client_server_ms=measured[rows] if measured.size else measured,
        )
        with CpuTime() as cpu:
            near = some.nearest_servers(_NEAR_SERVERS)[1]
        return near, cpu.seconds

    blocks = collect_blocks(spark, count, near_of)
    return np.concatenate([near for near, _ in blocks]), sum(cpu_s for _, cpu_s in blocks)


def _begin(
    spark: SparkSession, shared: SharedScenario, request: PlanRequest, parts: int, near: IndexArray
) -> _Begin:
    """Return the best plan by rule, as the search in memory begins with, found in a task."""
    asked = replace(request, on_progress=None)
    with share_arrays(spark, {"near": near}) as files:

        def begin_of(_: int) -> _Begin:
            load_compiled(Model.RATIO)
            with CpuTime() as cpu:
                scenario = shared.copy()
                problem = ratio_problem(scenario)
                homes = _start(scenario, asked, problem, np.array(files.load()["near"]))
                grouped = _groups(scenario.servers, homes, parts, 0)
                across = share_across_parts(problem, homes, grouped)
                between_ms = problem.network.server_server_ms
                unit_ms = temperature_unit(between_ms, problem.leg_weight)
            return _Begin(homes, across, unit_ms, cpu.seconds)

        return collect_blocks(spark, 1, begin_of)[0]


def _start(
    scenario: Scenario, request: PlanRequest, problem: RatioProblem, near: IndexArray
) -> IndexArray:
    nearest = np.ascontiguousarray(near[:, 0])
    plans = [nearest, centre_homes(problem, nearest), best_start(scenario, request)]
    costs = [evaluate_ratio(problem, plan).y_ms for plan in plans]
    return plans[int(np.argmin(costs))]


def _groups(servers: Servers, homes: IndexArray, parts: int, number: int) -> IndexArray:
    load = np.bincount(homes, minlength=len(servers)).astype(np.float64)
    return group_servers(servers.x_km, servers.y_km, load, parts, number)


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

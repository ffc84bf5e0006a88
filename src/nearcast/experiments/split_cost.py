"""What splitting `optimised` over executors costs: against the search in memory at equal CPU time.

The stage on Spark goes first. CPU seconds are those of the driver's Python and of all tasks (not
of the JVM). The search in memory then gets as many: it is run again, longer or shorter, until it
used as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.part import take_part
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.errors import PipelineError
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.cpu_time import CpuTime
from nearcast.pipeline.stages.plan_optimised import search_in_parts
from nearcast.pipeline.stages.shared_scenario import SharedScenario, share_scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.optimised import search_plan
from nearcast.planning.ratio.search import default_iterations
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.searches import load_compiled
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "Length", "SplitPoint", "make_scenario", "run", "summary"]

SETTINGS = ("reloc2021", "city")
_CLIENTS_PER_TOPIC = 10
_MEMBERS_PER_TOPIC = 10.3
"""With 3 % repeats this gives ten clients a topic."""
_SCENARIO_SEED = 1
"""One scenario for all seeds: what differs between them is the search alone."""
_CLOSE_ENOUGH = 0.03
"""Difference of the CPU seconds, as a share, at which they count as equal."""
_MOST_TRIES = 4


@dataclass(frozen=True, slots=True)
class Length:
    """How long the search on executors is; with neither, its default length."""

    sweeps: int | None = None
    """How often each client is looked at."""
    seconds: float | None = None
    """Of the clock, which all cores use."""


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """One seed: the two searches at equal CPU time."""

    setting: str
    clients: int
    servers: int
    seed: int
    parts: int
    """Searched at the same time; 1: the stage searched the whole as one task."""
    split_ms: float
    memory_ms: float
    cost_ratio: float
    split_cpu_s: float
    memory_cpu_s: float
    split_s: float
    memory_s: float
    split_moves: int
    """Moves looked at."""
    memory_moves: int


@dataclass(frozen=True, slots=True)
class _Measured:
    decision: Decision
    cpu_s: float
    seconds: float

    @property
    def moves(self) -> int:
        return int(self.decision.search["iterations"])


def make_scenario(setting: str, clients: int, servers: int) -> Scenario:
    """Return the scenario of a setting; reloc2021 takes the square next to `servers`.

    Raises
    ------
    PipelineError
        When there is no such setting.
    """
    topics = max(clients // _CLIENTS_PER_TOPIC, 1)
    if setting == "city":
        return generate_city(City(clients, servers, topics), _SCENARIO_SEED)
    if setting != "reloc2021":
        raise PipelineError(f"no setting {setting!r}; there are: {', '.join(SETTINGS)}")
    side = max(round(servers**0.5), 1)
    parameters = Reloc2021(
        topics=topics, servers_per_side=side, members_per_topic=_MEMBERS_PER_TOPIC
    )
    return generate_reloc2021(parameters, _SCENARIO_SEED)


def run(
    spark: SparkSession,
    scenarios: dict[str, Scenario],
    seeds: Sequence[int],
    length: Length,
    *,
    parts: int | None = None,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[SplitPoint]:
    """Measure both searches on each scenario with each seed.

    Parameters
    ----------
    scenarios : by the name that the points bear.
    parts : split into so many even where the stage would not; None: let it choose.
    """
    load_compiled(Model.RATIO)
    for setting, scenario in scenarios.items():
        for seed in seeds:
            begin(f"{setting}, {len(scenario.clients):,} clients, seed {seed}")
            yield _measure(spark, setting, scenario, _request(scenario, seed, length), parts)


def _request(scenario: Scenario, seed: int, length: Length) -> PlanRequest:
    clients, iterations = len(scenario.clients), None
    if length.seconds is None:
        iterations = (
            default_iterations(clients) if length.sweeps is None else length.sweeps * clients
        )
    return PlanRequest(Model.RATIO, seed=seed, iterations=iterations, time_limit_s=length.seconds)


def _measure(
    spark: SparkSession, setting: str, scenario: Scenario, request: PlanRequest, parts: int | None
) -> SplitPoint:
    watch = Stopwatch()
    with share_scenario(spark, scenario) as shared:
        with CpuTime() as asking:
            decision = search_in_parts(spark, shared, scenario, request, parts)
        if decision is not None:
            cpu_s = float(decision.search["search_cpu_seconds"])
        else:
            decision, task_cpu_s = _search_as_one_task(spark, shared, request)
            cpu_s = asking.seconds + task_cpu_s
    split = _Measured(decision, cpu_s, watch.seconds())
    memory = _in_memory(scenario, request, split)
    split_ms, memory_ms = (
        assess_homes(scenario, found.decision.homes, Model.RATIO).cost for found in (split, memory)
    )
    return SplitPoint(
        setting=setting,
        clients=len(scenario.clients),
        servers=len(scenario.servers),
        seed=request.seed,
        parts=int(decision.search.get("parts", 1)),
        split_ms=split_ms,
        memory_ms=memory_ms,
        cost_ratio=split_ms / memory_ms,
        split_cpu_s=split.cpu_s,
        memory_cpu_s=memory.cpu_s,
        split_s=split.seconds,
        memory_s=memory.seconds,
        split_moves=split.moves,
        memory_moves=memory.moves,
    )


def _search_as_one_task(
    spark: SparkSession, shared: SharedScenario, request: PlanRequest
) -> tuple[Decision, float]:
    """Return what the stage decides where it does not split, and the CPU seconds."""

    def decide(_: int) -> tuple[Decision, float]:
        load_compiled(Model.RATIO)
        mapped = shared.load()
        everyone = np.arange(len(mapped.clients), dtype=np.int32)
        # Compiled kernels are kept for arrays that can be written to.
        scenario = take_part(mapped, np.arange(len(mapped.members)), clients=everyone).scenario
        with CpuTime() as cpu:
            decision = search_plan(scenario, request)
        return decision, cpu.seconds

    return collect_blocks(spark, 1, decide)[0]


def _in_memory(scenario: Scenario, request: PlanRequest, split: _Measured) -> _Measured:
    """Return the search in memory whose CPU seconds came nearest to those of `split`."""

    def distance(found: _Measured) -> float:
        return abs(found.cpu_s / max(split.cpu_s, 1e-9) - 1)

    # One task is the same search: as many moves are as much work.
    most_tries = _MOST_TRIES if "parts" in split.decision.search else 1
    moves, tries = split.moves, list[_Measured]()
    while len(tries) < most_tries and min(map(distance, tries), default=1.0) > _CLOSE_ENOUGH:
        asked = replace(request, iterations=max(moves, 1), time_limit_s=None)
        watch = Stopwatch()
        with CpuTime() as cpu:
            decision = search_plan(scenario, asked)
        tries.append(_Measured(decision, cpu.seconds, watch.seconds()))
        moves = round(tries[-1].moves * split.cpu_s / max(cpu.seconds, 1e-9))
    return min(tries, key=distance)


def summary(points: Sequence[SplitPoint]) -> list[dict[str, Any]]:
    """Return a row for each scenario: means over the seeds, and whether the split is no worse.

    `memory_spread` is the standard deviation of the search in memory from seed to seed, as a
    share; the split is `no_worse` if its mean is above that of memory by two standard errors of
    such a difference at most.
    """
    rows = []
    for key in dict.fromkeys((point.setting, point.clients, point.parts) for point in points):
        mine = [one for one in points if (one.setting, one.clients, one.parts) == key]
        memory_ms = mean(one.memory_ms for one in mine)
        spread = stdev(one.memory_ms for one in mine) / memory_ms if len(mine) > 1 else None
        excess = mean(one.split_ms for one in mine) / memory_ms - 1
        noise = None if spread is None else 2 * spread * (2 / len(mine)) ** 0.5
        rows.append(
            {
                "setting": key[0],
                "clients": key[1],
                "parts": key[2],
                "seeds": len(mine),
                "split_ms": mean(one.split_ms for one in mine),
                "memory_ms": memory_ms,
                "excess_percent": 100 * excess,
                "memory_spread_percent": None if spread is None else 100 * spread,
                "no_worse": None if noise is None else str(excess <= noise + 1e-9).lower(),
                "split_cpu_s": mean(one.split_cpu_s for one in mine),
                "memory_cpu_s": mean(one.memory_cpu_s for one in mine),
                "split_s": mean(one.split_s for one in mine),
                "memory_s": mean(one.memory_s for one in mine),
            }
        )
    return rows
